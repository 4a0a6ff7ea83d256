// RUN: fsdp-opt %s --fsdp-recompute --split-input-file | FileCheck %s

// What backward reads of a block is computed again where its backward begins, from
// the block's input; the block's result is kept, since the loss reads it, and the
// matrix is read as it is.

// CHECK-LABEL: module @full
// CHECK:       %[[H:.+]] = aten.mm(%[[X:.+]], %[[W:[^)]+]])
// CHECK:       %[[Y:.+]] = aten.relu(%[[H]])
// CHECK:       %[[O:.+]] = aten.mul.Tensor(%[[Y]], %[[Y]])
// CHECK:       %[[L:.+]] = aten.sum(%[[O]])
// CHECK:       %[[G:.+]] = aten.ones_like
// CHECK-NEXT:  %[[E:.+]] = aten.expand(%[[G]]
// CHECK-NEXT:  %[[R:.+]] = fsdp.replay %[[X]] : tensor<4x4xf32>
// CHECK-NEXT:  %[[H2:.+]] = aten.mm(%[[R]], %[[W]])
// CHECK-NEXT:  %[[Y2:.+]] = aten.relu(%[[H2]])
// CHECK-NEXT:  %[[D:.+]] = aten.mul.Tensor(%[[E]], %[[Y2]])
// CHECK-NEXT:  %[[T:.+]] = aten.threshold_backward(%[[D]], %[[Y2]]
// CHECK-NEXT:  %[[XT:.+]] = aten.t(%[[X]])
// CHECK-NEXT:  %[[WG:.+]] = aten.mm(%[[XT]], %[[T]])
// CHECK-NEXT:  return %[[L]], %[[WG]]
module @full attributes {fsdp.recompute = #fsdp.recompute<modules = ["block"]>} {
  fsdp.module "block" class "Block"
  fsdp.state parameter @w : tensor<4x4xf32>
  func.func @"train/step"(%w: tensor<4x4xf32> {fsdp.state = @w}, %x: tensor<4x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4x4xf32> {fsdp.gradient = @w}) {
    %h = aten.mm(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("block.fc"("m.py":1:1))
    %y = aten.relu(%h) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("block"("m.py":2:1))
    %o = aten.mul.Tensor(%y, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("block"("m.py":3:1))
    %l = aten.sum(%o) : (tensor<4x4xf32>) -> tensor<f32> loc("m.py":4:1)
    %1 = aten.ones_like(%l) : (tensor<f32>) -> tensor<f32>
    %e = aten.expand(%1, size = [4, 4]) : (tensor<f32>) -> tensor<4x4xf32, #aten.strides<0, 0>>
    %d = aten.mul.Tensor(%e, %y) : (tensor<4x4xf32, #aten.strides<0, 0>>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = aten.threshold_backward(%d, %y, threshold = 0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %xt = aten.t(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %g = aten.mm(%xt, %t) : (tensor<4x4xf32, #aten.strides<1, 4>>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %l, %g : tensor<f32>, tensor<4x4xf32>
  }
}

// -----

// Products of matrices are kept; what is computed from them is not.

// CHECK-LABEL: module @selective
// CHECK:       %[[H:.+]] = aten.mm
// CHECK:       aten.sum
// CHECK-NOT:   aten.mm
// CHECK:       %[[R:.+]] = fsdp.replay %[[H]]
// CHECK-NEXT:  %[[Y2:.+]] = aten.relu(%[[R]])
// CHECK-NEXT:  aten.threshold_backward(%{{.+}}, %[[Y2]]
module @selective attributes {fsdp.recompute = #fsdp.recompute<policy = selective, modules = ["block"]>} {
  fsdp.module "block" class "Block"
  fsdp.state parameter @w : tensor<4x4xf32>
  func.func @"train/step"(%w: tensor<4x4xf32> {fsdp.state = @w}, %x: tensor<4x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4x4xf32> {fsdp.gradient = @w}) {
    %h = aten.mm(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("block")
    %y = aten.relu(%h) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("block")
    %o = aten.neg(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("block")
    %l = aten.sum(%o) : (tensor<4x4xf32>) -> tensor<f32>
    %1 = aten.ones_like(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = aten.threshold_backward(%1, %y, threshold = 0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %l, %t : tensor<f32>, tensor<4x4xf32>
  }
}

// -----

// A mask is drawn again at its own site; what the draw is a function of passes a
// replay. What forward alone computed for backward is gone from there.

// CHECK-LABEL: module @draws
// CHECK:       %[[M:.+]] = fsdp.draw bernoulli with [5.000000e-01] site 3 from %[[S:[^ ]+]]
// CHECK-NOT:   aten.exp
// CHECK:       aten.sum
// CHECK:       %[[R:.+]] = fsdp.replay %[[S]]
// CHECK-NEXT:  %[[M2:.+]] = fsdp.draw bernoulli with [5.000000e-01] site 3 from %[[R]]
// CHECK-NEXT:  %[[X:.+]] = fsdp.replay
// CHECK-NEXT:  %[[E2:.+]] = aten.exp(%[[X]])
// CHECK-NEXT:  aten.mul.Tensor(%[[E2]], %[[M2]])
module @draws attributes {fsdp.recompute = #fsdp.recompute<modules = ["block"]>} {
  fsdp.module "block" class "Block"
  fsdp.state parameter @w : tensor<4xf32>
  fsdp.state random @"random/state" : tensor<2xi64>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %s: tensor<2xi64> {fsdp.state = @"random/state"}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @w}) {
    %m = fsdp.draw bernoulli with [0.5] site 3 from %s : (tensor<2xi64>) -> tensor<4xf32> loc("block")
    %e = aten.exp(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("block")
    %o = aten.mul.Tensor(%w, %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("block")
    %l = aten.sum(%o) : (tensor<4xf32>) -> tensor<f32>
    %g = aten.mul.Tensor(%e, %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %l, %g : tensor<f32>, tensor<4xf32>
  }
}

// -----

// What the loss reads outside of the block, and its whole storage, is there anyway.

// CHECK-LABEL: module @kept
// CHECK:       aten.sum
// CHECK-NOT:   aten.exp
// CHECK:       %[[R:.+]] = fsdp.replay
// CHECK-NEXT:  %[[V:.+]] = aten.view(%[[R]], size = [16])
// CHECK-NEXT:  aten.mul.Tensor(%{{.+}}, %[[V]])
module @kept attributes {fsdp.recompute = #fsdp.recompute<modules = ["block"]>} {
  fsdp.module "block" class "Block"
  fsdp.state parameter @w : tensor<16xf32>
  func.func @"train/step"(%w: tensor<16xf32> {fsdp.state = @w}, %x: tensor<4x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<16xf32> {fsdp.gradient = @w}) {
    %e = aten.exp(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("block")
    %f = aten.view(%e, size = [16]) : (tensor<4x4xf32>) -> tensor<16xf32> loc("block")
    %p = aten.t(%e) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>> loc("block")
    %l = aten.sum(%p) : (tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<f32>
    %g = aten.mul.Tensor(%w, %f) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    return %l, %g : tensor<f32>, tensor<16xf32>
  }
}

// -----

// The gather that backward needs anyway serves the second computation.

// CHECK-LABEL: module @gathers
// CHECK:       %[[F:.+]] = fsdp.all_gather
// CHECK:       aten.sum
// CHECK-NOT:   fsdp.all_gather
// CHECK:       %[[X:.+]] = fsdp.replay %{{.+}} : tensor<4x4xf32>
// CHECK-NEXT:  %[[H2:.+]] = aten.mm(%[[X]], %[[F]])
// CHECK-NEXT:  aten.mm(%[[H2]], %[[F]])
#shard = #fsdp.group<"shard", 2>
module @gathers attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.checkpoints = ["block"]} {
  fsdp.module "block" class "Block"
  fsdp.state frozen @w : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "block"
  fsdp.state parameter @b : tensor<4x4xf32>
  func.func @"train/step"(%w: tensor<2x4xf32> {fsdp.state = @w}, %b: tensor<4x4xf32> {fsdp.state = @b}, %x: tensor<4x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4x4xf32> {fsdp.gradient = @b}) {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32> loc("block")
    %h = aten.mm(%x, %f) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("block")
    %o = aten.neg(%h) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("block")
    %l = aten.sum(%o) : (tensor<4x4xf32>) -> tensor<f32>
    %g = aten.mm(%h, %f) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %l, %g : tensor<f32>, tensor<4x4xf32>
  }
}

// -----

// Nothing happens unless the module says so, nor in programs without backward.

// CHECK-LABEL: module @absent
// CHECK-NOT:   fsdp.replay
// CHECK:       return
module @absent {
  fsdp.module "block" class "Block"
  fsdp.state parameter @w : tensor<4xf32>
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @w}) {
    %e = aten.exp(%w) : (tensor<4xf32>) -> tensor<4xf32> loc("block")
    %o = aten.neg(%e) : (tensor<4xf32>) -> tensor<4xf32> loc("block")
    %l = aten.sum(%o) : (tensor<4xf32>) -> tensor<f32>
    %g = aten.neg(%e) : (tensor<4xf32>) -> tensor<4xf32>
    return %l, %g : tensor<f32>, tensor<4xf32>
  }
}

// -----

// CHECK-LABEL: module @inference
// CHECK-NOT:   fsdp.replay
// CHECK:       return
module @inference attributes {fsdp.recompute = #fsdp.recompute<modules = ["block"]>} {
  fsdp.module "block" class "Block"
  fsdp.state frozen @w : tensor<4xf32>
  func.func @"infer/step"(%w: tensor<4xf32> {fsdp.state = @w}) -> (tensor<4xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %e = aten.exp(%w) : (tensor<4xf32>) -> tensor<4xf32> loc("block")
    %o = aten.neg(%e) : (tensor<4xf32>) -> tensor<4xf32>
    return %o : tensor<4xf32>
  }
}

// -----

// What ranks gathered for the block is gathered again, once for all that backward reads of it.

// CHECK-LABEL: module @gathered
// CHECK:       %[[P:.+]] = aten.neg(%[[X:.+]]) :
// CHECK:       fsdp.all_gather %[[P]] dim 0 over #tp for step
// CHECK:       aten.sum
// CHECK:       %[[R:.+]] = fsdp.replay %[[X]] : tensor<2x4xf32>
// CHECK-NEXT:  %[[P2:.+]] = aten.neg(%[[R]])
// CHECK-NEXT:  %[[A:.+]] = fsdp.all_gather %[[P2]] dim 0 over #tp for step : tensor<2x4xf32> -> tensor<4x4xf32>
// CHECK-NEXT:  %[[H:.+]] = aten.mm(%[[A]], %{{.+}})
// CHECK-NEXT:  %[[Y:.+]] = aten.relu(%[[H]])
// CHECK-NEXT:  %[[T:.+]] = aten.threshold_backward(%{{.+}}, %[[Y]]
// CHECK-NEXT:  %[[AT:.+]] = aten.t(%[[A]])
// CHECK-NEXT:  %[[WG:.+]] = aten.mm(%[[AT]], %[[T]])
// CHECK-NOT:   fsdp.all_gather
#tp = #fsdp.group<"tp", 2>
module @gathered attributes {fsdp.recompute = #fsdp.recompute<modules = ["block"]>} {
  fsdp.module "block" class "Block"
  fsdp.state parameter @w : tensor<4x4xf32>
  func.func @"train/step"(%w: tensor<4x4xf32> {fsdp.state = @w}, %x: tensor<2x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4x4xf32> {fsdp.gradient = @w}) {
    %p = aten.neg(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32> loc("block.norm")
    %a = fsdp.all_gather %p dim 0 over #tp for step : tensor<2x4xf32> -> tensor<4x4xf32> loc("block.norm")
    %h = aten.mm(%a, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("block.fc")
    %y = aten.relu(%h) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("block")
    %o = aten.mul.Tensor(%y, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("block")
    %l = aten.sum(%o) : (tensor<4x4xf32>) -> tensor<f32>
    %1 = aten.ones_like(%o) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = aten.threshold_backward(%1, %y, threshold = 0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = fsdp.replay %p : tensor<2x4xf32>
    %b = fsdp.all_gather %r dim 0 over #tp for step : tensor<2x4xf32> -> tensor<4x4xf32>
    %bt = aten.t(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %g = aten.mm(%bt, %t) : (tensor<4x4xf32, #aten.strides<1, 4>>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %l, %g : tensor<f32>, tensor<4x4xf32>
  }
}
