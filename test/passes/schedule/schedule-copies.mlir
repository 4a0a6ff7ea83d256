// RUN: fsdp-opt %s --fsdp-schedule-collectives --split-input-file | FileCheck %s

// The upload of a bucket starts with the gather before its own, and is waited for
// in front of that and of the cast there. A gradient's norm is computed when it
// is reduced, in front of its download, which is waited for when the next one has
// started; the last one before its first use. A copy of a number starts when the
// number is there.

// CHECK-LABEL: func.func @"train/step"
// CHECK-NEXT:  %[[UA:.+]] = fsdp.copy.start "a"
// CHECK-NEXT:  %[[UB:.+]] = fsdp.copy.start "b"
// CHECK-NEXT:  %[[WA:.+]] = fsdp.wait %[[UA]]
// CHECK-NEXT:  %[[CA:.+]] = aten._to_copy(%[[WA]], dtype = bf16)
// CHECK-NEXT:  %[[A:.+]] = fsdp.start all_gather "a"(%[[CA]])
// CHECK-NEXT:  aten.relu
// CHECK-NEXT:  %[[UB2:.+]] = fsdp.replay
// CHECK-NEXT:  %[[UB3:.+]] = fsdp.copy.start "b"(%[[UB2]])
// CHECK-NEXT:  %[[WB:.+]] = fsdp.wait %[[UB]]
// CHECK-NEXT:  %[[B:.+]] = fsdp.start all_gather "b"(%[[WB]])
// CHECK-NEXT:  %[[AF:.+]] = fsdp.wait %[[A]]
// CHECK-NEXT:  aten.mul.Tensor
// CHECK-NEXT:  %[[BF:.+]] = fsdp.wait %[[B]]
// CHECK-NEXT:  aten.mul.Tensor
// CHECK-NEXT:  %[[WB3:.+]] = fsdp.wait %[[UB3]]
// CHECK-NEXT:  %[[B2:.+]] = fsdp.start all_gather "b"(%[[WB3]])
// CHECK-NEXT:  aten.sum
// CHECK-NEXT:  aten.ones_like
// CHECK-NEXT:  %[[B2F:.+]] = fsdp.wait %[[B2]]
// CHECK-NEXT:  %[[GB:.+]] = aten.mul.Tensor
// CHECK-NEXT:  %[[RB:.+]] = fsdp.start reduce_scatter avg "b"(%[[GB]])
// CHECK-NEXT:  %[[GA:.+]] = aten.neg
// CHECK-NEXT:  %[[RA:.+]] = fsdp.start reduce_scatter avg "a"(%[[GA]])
// CHECK-NEXT:  %[[RBW:.+]] = fsdp.wait %[[RB]]
// CHECK-NEXT:  aten._foreach_norm.Scalar([%[[RBW]]])
// CHECK-NEXT:  %[[DB:.+]] = fsdp.copy.start "b"(%[[RBW]]) to host
// CHECK-NEXT:  %[[RAW:.+]] = fsdp.wait %[[RA]]
// CHECK-NEXT:  aten._foreach_norm.Scalar([%[[RAW]]])
// CHECK-NEXT:  %[[DA:.+]] = fsdp.copy.start "a"(%[[RAW]]) to host
// CHECK-NEXT:  %[[HB:.+]] = fsdp.wait %[[DB]] :
// CHECK-NEXT:  aten.stack
// CHECK-NEXT:  aten.sum
// CHECK-NEXT:  %[[DN:.+]] = fsdp.copy.start(
// CHECK-NEXT:  aten.neg
// CHECK-NEXT:  %[[HA:.+]] = fsdp.wait %[[DA]] :
// CHECK-NEXT:  %[[N:.+]] = fsdp.wait %[[DN]]
// CHECK-NEXT:  fsdp.update sgd params({{.*}}) grads(%[[HA]], %[[HB]]) {{.*}} grad_scale %[[N]]
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @a : tensor<4xf32> sharded <dim 0 over #shard> bucket "a" memory host
  fsdp.state parameter @b : tensor<4xf32> sharded <dim 0 over #shard> bucket "b" memory host
  fsdp.state learning_rate @lr : tensor<f32> init 1.0e-3 : f32 memory host
  func.func @"train/step"(%a: tensor<2xf32> {fsdp.state = @a}, %b: tensor<2xf32> {fsdp.state = @b}, %lr: tensor<f32> {fsdp.state = @lr}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.output = "grad_norm"}, tensor<2xf32> {fsdp.state = @a}, tensor<2xf32> {fsdp.state = @b}) {
    %r = aten.relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %ua = fsdp.copy.start "a"(%a) to device on upload : tensor<2xf32> -> !fsdp.future<tensor<2xf32>>
    %ad = fsdp.wait %ua : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %ac = aten._to_copy(%ad, dtype = bf16) : (tensor<2xf32>) -> tensor<2xbf16>
    %fa = fsdp.start all_gather "a"(%ac) dims [0] over #shard on gather : tensor<2xbf16> -> !fsdp.future<tensor<4xbf16>>
    %af = fsdp.wait %fa : !fsdp.future<tensor<4xbf16>> -> tensor<4xbf16>
    %y = aten.mul.Tensor(%r, %af) : (tensor<4xf32>, tensor<4xbf16>) -> tensor<4xf32>
    %ub = fsdp.copy.start "b"(%b) to device on upload : tensor<2xf32> -> !fsdp.future<tensor<2xf32>>
    %bd = fsdp.wait %ub : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %fb = fsdp.start all_gather "b"(%bd) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %bf = fsdp.wait %fb : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %z = aten.mul.Tensor(%y, %bf) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %loss = aten.sum(%z) : (tensor<4xf32>) -> tensor<f32>
    %one = aten.ones_like(%z) : (tensor<4xf32>) -> tensor<4xf32>
    %br = fsdp.replay %b : tensor<2xf32>
    %ub2 = fsdp.copy.start "b"(%br) to device on upload : tensor<2xf32> -> !fsdp.future<tensor<2xf32>>
    %bd2 = fsdp.wait %ub2 : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %fb2 = fsdp.start all_gather "b"(%bd2) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %bf2 = fsdp.wait %fb2 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %gb = aten.mul.Tensor(%one, %bf2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %rb = fsdp.start reduce_scatter avg "b"(%gb) dims [0] over #shard on reduce of [@b] : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    %rbw = fsdp.wait %rb : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %nb = aten._foreach_norm.Scalar([%rbw]) : (tensor<2xf32>) -> tensor<f32>
    %db = fsdp.copy.start "b"(%rbw) to host on download : tensor<2xf32> -> !fsdp.future<tensor<2xf32>>
    %hb = fsdp.wait %db : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %ga = aten.neg(%gb) : (tensor<4xf32>) -> tensor<4xf32>
    %ra = fsdp.start reduce_scatter avg "a"(%ga) dims [0] over #shard on reduce of [@a] : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    %raw = fsdp.wait %ra : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %na = aten._foreach_norm.Scalar([%raw]) : (tensor<2xf32>) -> tensor<f32>
    %da = fsdp.copy.start "a"(%raw) to host on download : tensor<2xf32> -> !fsdp.future<tensor<2xf32>>
    %ha = fsdp.wait %da : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %s = aten.stack([%na, %nb]) : (tensor<f32>, tensor<f32>) -> tensor<2xf32>
    %norm = aten.sum(%s) : (tensor<2xf32>) -> tensor<f32>
    %dn = fsdp.copy.start (%norm) to host on download : tensor<f32> -> !fsdp.future<tensor<f32>>
    %n = fsdp.wait %dn : !fsdp.future<tensor<f32>> -> tensor<f32>
    %late = aten.neg(%z) : (tensor<4xf32>) -> tensor<4xf32>
    %an, %bn = fsdp.update sgd params(%a, %b) grads(%ha, %hb) momentum_buffers() lr %lr grad_scale %n momentum 0.0 weight_decay 0.0 : tensor<2xf32>, tensor<2xf32>
    return %loss, %late, %an, %bn : tensor<f32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>
  }
}

// -----

// Parameters whose updates are computed on the host go there in the order of
// their updates, spread over forward, which takes its part (four of eleven ops) of
// all that goes to the host, gradients included: a third of it here.

// CHECK-LABEL: func.func @"train/spread"
// CHECK-SAME:  (%[[A:[^:]+]]: tensor<64xf32> {fsdp.state = @a}, %[[B:[^:]+]]: tensor<64xf32> {fsdp.state = @b}, %[[C:[^:]+]]: tensor<64xf32> {fsdp.state = @c}
// CHECK-NEXT:  %[[DC:.+]] = fsdp.copy.start "c"(%[[C]]) to host
// CHECK-NEXT:  aten.mul.Tensor
// CHECK-NEXT:  %[[DB:.+]] = fsdp.copy.start "b"(%[[B]]) to host
// CHECK-NEXT:  aten.mul.Tensor
// CHECK-NEXT:  aten.mul.Tensor
// CHECK-NEXT:  %[[DA:.+]] = fsdp.copy.start "a"(%[[A]]) to host
// CHECK-NEXT:  aten.sum
// CHECK-NEXT:  aten.ones_like
// CHECK-NEXT:  %[[GC:.+]] = fsdp.copy.start "c"(%{{.+}}) to host
// CHECK-NEXT:  %[[GCW:.+]] = fsdp.wait %[[GC]]
// CHECK-NEXT:  %[[DCW:.+]] = fsdp.wait %[[DC]] :
// CHECK-NEXT:  fsdp.update sgd params(%[[DCW]]) grads(%[[GCW]])
// CHECK:       %[[DBW:.+]] = fsdp.wait %[[DB]] :
// CHECK-NEXT:  fsdp.update sgd params(%[[DBW]])
// CHECK:       %[[DAW:.+]] = fsdp.wait %[[DA]] :
// CHECK-NEXT:  fsdp.update sgd params(%[[DAW]])
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state parameter @a : tensor<64xf32> bucket "a"
  fsdp.state parameter @b : tensor<64xf32> bucket "b"
  fsdp.state parameter @c : tensor<64xf32> bucket "c"
  fsdp.state learning_rate @lr : tensor<f32> init 1.0e-3 : f32 memory host
  func.func @"train/spread"(%a: tensor<64xf32> {fsdp.state = @a}, %b: tensor<64xf32> {fsdp.state = @b}, %c: tensor<64xf32> {fsdp.state = @c}, %lr: tensor<f32> {fsdp.state = @lr}, %x: tensor<64xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<64xf32> {fsdp.state = @a}, tensor<64xf32> {fsdp.state = @b}, tensor<64xf32> {fsdp.state = @c}) {
    %da = fsdp.copy.start "a"(%a) to host on download : tensor<64xf32> -> !fsdp.future<tensor<64xf32>>
    %ah = fsdp.wait %da : !fsdp.future<tensor<64xf32>> -> tensor<64xf32>
    %db = fsdp.copy.start "b"(%b) to host on download : tensor<64xf32> -> !fsdp.future<tensor<64xf32>>
    %bh = fsdp.wait %db : !fsdp.future<tensor<64xf32>> -> tensor<64xf32>
    %dc = fsdp.copy.start "c"(%c) to host on download : tensor<64xf32> -> !fsdp.future<tensor<64xf32>>
    %ch = fsdp.wait %dc : !fsdp.future<tensor<64xf32>> -> tensor<64xf32>
    %0 = aten.mul.Tensor(%x, %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %1 = aten.mul.Tensor(%0, %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %2 = aten.mul.Tensor(%1, %c) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %loss = aten.sum(%2) : (tensor<64xf32>) -> tensor<f32>
    %gc = aten.ones_like(%2) : (tensor<64xf32>) -> tensor<64xf32>
    %dgc = fsdp.copy.start "c"(%gc) to host on download : tensor<64xf32> -> !fsdp.future<tensor<64xf32>>
    %gch = fsdp.wait %dgc : !fsdp.future<tensor<64xf32>> -> tensor<64xf32>
    %cn = fsdp.update sgd params(%ch) grads(%gch) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<64xf32>
    %gb = aten.mul.Tensor(%gc, %c) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %dgb = fsdp.copy.start "b"(%gb) to host on download : tensor<64xf32> -> !fsdp.future<tensor<64xf32>>
    %gbh = fsdp.wait %dgb : !fsdp.future<tensor<64xf32>> -> tensor<64xf32>
    %bn = fsdp.update sgd params(%bh) grads(%gbh) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<64xf32>
    %ga = aten.mul.Tensor(%gb, %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %dga = fsdp.copy.start "a"(%ga) to host on download : tensor<64xf32> -> !fsdp.future<tensor<64xf32>>
    %gah = fsdp.wait %dga : !fsdp.future<tensor<64xf32>> -> tensor<64xf32>
    %an = fsdp.update sgd params(%ah) grads(%gah) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<64xf32>
    return %loss, %an, %bn, %cn : tensor<f32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
  }
}
