// RUN: fsdp-opt %s --fsdp-assign-buckets | FileCheck %s --check-prefixes=CHECK,BLOCKS
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<policy = classes, classes = ["Block", "Head"]>}' --fsdp-assign-buckets | FileCheck %s --check-prefixes=CHECK,CLASSES
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<policy = classes, classes = ["Attention", "Block"]>}' --fsdp-assign-buckets | FileCheck %s --check-prefixes=CHECK,NESTED
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<policy = size, min_params = 64>}' --fsdp-assign-buckets | FileCheck %s --check-prefixes=CHECK,SIZE
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<policy = none>}' --fsdp-assign-buckets | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<policy = classes, classes = ["Blok"]>}' --fsdp-assign-buckets 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<policy = classes>}' --fsdp-assign-buckets 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<policy = layers>}' --fsdp-assign-buckets 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<policy = size, min_params = 0>}' --fsdp-assign-buckets 2>&1 | FileCheck %s --check-prefix=SMALL

// UNKNOWN: expected a module of class 'Blok' to wrap, found only the classes Model, Block, Attention, Head
// EMPTY:   wrap policy 'classes' expects the classes to wrap
// POLICY:  expected one of [blocks, classes, size, none] for which modules form buckets, got: layers
// SMALL:   wrap policy 'size' expects a positive number of parameters, found 0

module {
  fsdp.module "" class "Model"
  fsdp.module "layers.0" class "Block"
  fsdp.module "layers.0.attention" class "Attention"
  fsdp.module "layers.1" class "Block"
  fsdp.module "layers.1.attention" class "Attention"
  fsdp.module "head" class "Head"

  // Tied over two modules: the bucket of what contains both names.
  // CHECK: @embedding.weight
  // CHECK-SAME: bucket "root"
  fsdp.state parameter @embedding.weight : tensor<4x8xf32> names ["embedding.weight", "head.weight"]

  // CHECK: @layers.0.attention.weight
  // BLOCKS-SAME:  bucket "layers.0"
  // CLASSES-SAME: bucket "layers.0"
  // NESTED-SAME:  bucket "layers.0.attention"
  // SIZE-SAME:    bucket "layers.0.attention"
  // NONE-SAME:    bucket "root"
  fsdp.state parameter @layers.0.attention.weight : tensor<8x8xf32>

  // Frozen parameters are moved like the others.
  // CHECK: @layers.0.scale
  // BLOCKS-SAME:  bucket "layers.0"
  // CLASSES-SAME: bucket "layers.0"
  // NESTED-SAME:  bucket "layers.0"
  // SIZE-SAME:    bucket "root"
  // NONE-SAME:    bucket "root"
  fsdp.state frozen @layers.0.scale : tensor<8xf32>

  // CHECK: @layers.1.attention.weight
  // BLOCKS-SAME:  bucket "layers.1"
  // SIZE-SAME:    bucket "layers.1.attention"
  fsdp.state parameter @layers.1.attention.weight : tensor<8x8xf32>

  // Tied inside one block.
  // CHECK: @layers.1.a
  // BLOCKS-SAME:  bucket "layers.1"
  // NESTED-SAME:  bucket "layers.1"
  // NONE-SAME:    bucket "root"
  fsdp.state parameter @layers.1.a : tensor<4xf32> names ["layers.1.a", "layers.1.attention.a"]

  // CHECK: @head.bias
  // BLOCKS-SAME:  bucket "root"
  // CLASSES-SAME: bucket "head"
  // NONE-SAME:    bucket "root"
  fsdp.state parameter @head.bias : tensor<4xf32>

  // Each rank keeps its own buffers.
  // CHECK: fsdp.state buffer @layers.0.mean : tensor<8xf32>
  // CHECK-NOT: bucket
  fsdp.state buffer @layers.0.mean : tensor<8xf32>
}
