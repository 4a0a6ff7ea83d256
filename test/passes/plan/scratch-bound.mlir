// RUN: fsdp-opt %s --fsdp-plan-memory --split-input-file | FileCheck %s

// Matmuls of single precision write their results straight away.
// CHECK: scratch_bound = 0 : i64
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  func.func @"infer/step"(%x: tensor<4x8xf32> {fsdp.input = "x"}, %w: tensor<8x16xf32> {fsdp.input = "w"}) -> (tensor<4x16xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %y = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    return %y : tensor<4x16xf32>
  }
}

// -----

// Large ones are packed by a library, from the heap: 384 of the depth of the
// wider operand's 3072 rows and of 384 of the other's, and what is around them,
// at five places.
// CHECK: scratch_bound = 27197440 : i64
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  func.func @"infer/step"(%x: tensor<512x1024xf32> {fsdp.input = "x"}, %w: tensor<1024x3072xf32> {fsdp.input = "w"}) -> (tensor<512x3072xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %y = aten.mm(%x, %w) : (tensor<512x1024xf32>, tensor<1024x3072xf32>) -> tensor<512x3072xf32>
    return %y : tensor<512x3072xf32>
  }
}

// -----

// The bias is no matrix that is packed.
// CHECK: scratch_bound = 27197440 : i64
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  func.func @"infer/step"(%b: tensor<3072xf32> {fsdp.input = "b"}, %x: tensor<512x1024xf32> {fsdp.input = "x"}, %w: tensor<1024x3072xf32> {fsdp.input = "w"}) -> (tensor<512x3072xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %y = aten.addmm(%b, %x, %w) : (tensor<3072xf32>, tensor<512x1024xf32>, tensor<1024x3072xf32>) -> tensor<512x3072xf32>
    return %y : tensor<512x3072xf32>
  }
}

// -----

// What it is added to may be where the sum is to be, which oneDNN makes elsewhere.
// CHECK: scratch_bound = 33488960 : i64
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  func.func @"infer/step"(%b: tensor<512x3072xf32> {fsdp.input = "b"}, %x: tensor<512x1024xf32> {fsdp.input = "x"}, %w: tensor<1024x3072xf32> {fsdp.input = "w"}) -> (tensor<512x3072xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %y = aten.addmm(%b, %x, %w) : (tensor<512x3072xf32>, tensor<512x1024xf32>, tensor<1024x3072xf32>) -> tensor<512x3072xf32>
    return %y : tensor<512x3072xf32>
  }
}

// -----

// Those of half precision may be computed in single precision: twice the bytes
// of operands and results, and what the heap makes of three allocations.
// CHECK: scratch_bound = 1280 : i64
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  func.func @"infer/step"(%x: tensor<4x8xbf16> {fsdp.input = "x"}, %w: tensor<8x16xbf16> {fsdp.input = "w"}) -> (tensor<4x16xbf16> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %y = aten.mm(%x, %w) : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
    return %y : tensor<4x16xbf16>
  }
}

// -----

// On a GPU what cuBLAS and cuBLASLt work in comes to what kernels take, which is
// none for matrices that these take as they are.
// CHECK: scratch_bound = 67108864 : i64
// CHECK-NOT: scratch_unknown
module attributes {fsdp.device = "cuda:sm_90", fsdp.mesh = #fsdp.mesh<shard = 1>} {
  func.func @"infer/step"(%x: tensor<4x8xbf16> {fsdp.input = "x"}, %w: tensor<8x16xbf16> {fsdp.input = "w"}) -> (tensor<4x16xbf16> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %y = aten.mm(%x, %w) : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
    return %y : tensor<4x16xbf16>
  }
}

// -----

// What of a GPU's kernels is unknown is named.
// CHECK: scratch_bound = 67108864 : i64, scratch_unknown = ["aten.topk"]
module attributes {fsdp.device = "cuda:sm_90", fsdp.mesh = #fsdp.mesh<shard = 1>} {
  func.func @"infer/step"(%x: tensor<4x8xf32> {fsdp.input = "x"}) -> (tensor<4x2xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %y, %i = aten.topk(%x, k = 2) : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
    return %y : tensor<4x2xf32>
  }
}
