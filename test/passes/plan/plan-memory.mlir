// RUN: fsdp-opt %s --fsdp-plan-memory --fsdp-verify-planned --split-input-file | FileCheck %s

// States first; padded room for what is gathered and scattered; memory of what
// is dead is used again.
#shard = #fsdp.group<"shard", 2>
// CHECK: fsdp.memory = {activations = {{.*}}, buffers = 0 : i64, {{.*}}inputs = 256 : i64, optimizer = 4 : i64, params = 256 : i64, peak = {{.*}}, scratch_bound = 0 : i64, states = 384 : i64}
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // CHECK: fsdp.state parameter @w : {{.*}} at 0
  fsdp.state parameter @w : tensor<3x32xf32> sharded <dim 0 over #shard>
  // CHECK: fsdp.state scalar @lr : {{.*}} at 256
  fsdp.state scalar @lr : tensor<f32>
  // CHECK-LABEL: @"train/step"
  // CHECK-SAME: fsdp.at = array<i64: [[X:[0-9]+]]>, fsdp.input = "x"
  func.func @"train/step"(%w: tensor<2x32xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr},
                          %x: tensor<2x32xf32> {fsdp.input = "x"}) -> (tensor<2x32xf32> {fsdp.state = @w}) {
    // Four rows: 512 bytes.
    // CHECK: fsdp.start all_gather "w"(%{{.*}}) {{.*}} {fsdp.at = array<i64: [[FULL:[0-9]+]]>}
    %f = fsdp.start all_gather "w"(%w) dims [0] over #shard on gather : tensor<2x32xf32> -> !fsdp.future<tensor<3x32xf32>>
    // CHECK-NEXT: fsdp.wait
    // CHECK-NOT: fsdp.at
    %full = fsdp.wait %f : !fsdp.future<tensor<3x32xf32>> -> tensor<3x32xf32>
    // CHECK: aten.t(%w.full) :
    %t = aten.t(%full) : (tensor<3x32xf32>) -> tensor<32x3xf32, #aten.strides<1, 32>>
    // CHECK: aten.mm({{.*}}) {fsdp.at
    %y = aten.mm(%x, %t) : (tensor<2x32xf32>, tensor<32x3xf32, #aten.strides<1, 32>>) -> tensor<2x3xf32>
    fsdp.free %full : tensor<3x32xf32>
    %yt = aten.t(%y) : (tensor<2x3xf32>) -> tensor<3x2xf32, #aten.strides<1, 3>>
    // The gathered tensor's memory, room for four rows again.
    // CHECK: aten.mm({{.*}}) {fsdp.at = array<i64: [[FULL]]>}
    %g = aten.mm(%yt, %x) : (tensor<3x2xf32, #aten.strides<1, 3>>, tensor<2x32xf32>) -> tensor<3x32xf32>
    fsdp.zero_padding %g dim 0 over #shard : tensor<3x32xf32>
    %h = fsdp.start reduce_scatter avg "w"(%g) dims [0] over #shard on reduce of [@w] : tensor<3x32xf32> -> !fsdp.future<tensor<2x32xf32>>
    %s = fsdp.wait %h : !fsdp.future<tensor<2x32xf32>> -> tensor<2x32xf32>
    // CHECK: fsdp.update sgd {{.*}} {fsdp.at = array<i64: 0>}
    %n = fsdp.update sgd params(%w) grads(%s) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2x32xf32>
    return %n : tensor<2x32xf32>
  }
}

// -----

// New values of states: in place if an elementwise op computes them last.
// CHECK: fsdp.state buffer @count : {{.*}} at 0
// CHECK: fsdp.state buffer @mean : {{.*}} at 16
// CHECK: fsdp.state buffer @old : {{.*}} at 48
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state buffer @count : tensor<i64>
  fsdp.state buffer @mean : tensor<8xf32>
  fsdp.state buffer @old : tensor<8xf32>
  func.func @"train/step"(%count: tensor<i64> {fsdp.state = @count}, %mean: tensor<8xf32> {fsdp.state = @mean},
                          %old: tensor<8xf32> {fsdp.state = @old})
      -> (tensor<i64> {fsdp.state = @count}, tensor<8xf32> {fsdp.state = @mean}, tensor<8xf32> {fsdp.state = @old}) {
    // CHECK: aten.add.Scalar({{.*}}) {fsdp.at = array<i64: 0>}
    %c = aten.add.Scalar(%count, other = 1) : (tensor<i64>) -> tensor<i64>
    // Not elementwise: it may still read the old value when it writes.
    // CHECK: aten.cumsum({{.*}}) {fsdp.at = array<i64: {{(128|160)}}>}
    %m = aten.cumsum(%mean, dim = 0) : (tensor<8xf32>) -> tensor<8xf32>
    // Elementwise, and the old value is read again.
    // CHECK: aten.mul.Scalar({{.*}}) {fsdp.at = array<i64: {{(128|160)}}>}
    %o = aten.mul.Scalar(%old, other = 2.0) : (tensor<8xf32>) -> tensor<8xf32>
    %again = aten.relu(%old) : (tensor<8xf32>) -> tensor<8xf32>
    return %c, %m, %o : tensor<i64>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// What is packed is computed in its place: @w's gradient at the beginning, @v's
// behind it. A value that others read, a part of another tensor and a transposed one
// are copied there, and so have memory of their own.
// CHECK: fsdp.state parameter @f : {{.*}} at 0
// CHECK: fsdp.state parameter @w : {{.*}} part <@f at 0>{{$}}
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @f : tensor<256xf32> flat <over #shard>
  fsdp.state parameter @w : tensor<64xf32> part <@f at 0>
  fsdp.state parameter @v : tensor<32xf32> part <@f at 64>
  fsdp.state parameter @o : tensor<32xf32> part <@f at 96>
  fsdp.state parameter @p : tensor<32xf32> part <@f at 128>
  fsdp.state parameter @t : tensor<2x32xf32> part <@f at 192>
  fsdp.state scalar @lr : tensor<f32>
  // CHECK: @"train/step"
  func.func @"train/step"(%f: tensor<128xf32> {fsdp.state = @f}, %lr: tensor<f32> {fsdp.state = @lr}, %x: tensor<64xf32> {fsdp.input = "x"}, %y: tensor<32x2xf32> {fsdp.input = "y"}) -> (tensor<32xf32> {fsdp.output = "loss"}, tensor<128xf32> {fsdp.state = @f}) {
    // CHECK: aten.exp({{.*}}) {fsdp.at = array<i64: 640>}
    %w = aten.exp(%x) : (tensor<64xf32>) -> tensor<64xf32>
    %a = aten.sin(%x) : (tensor<64xf32>) -> tensor<64xf32>
    %half = aten.slice.Tensor(%a, dim = 0, end = 32) : (tensor<64xf32>) -> tensor<32xf32>
    // The view of a whole is the whole.
    // CHECK: aten.mean.dim({{.*}}) {fsdp.at = array<i64: 896>}
    %m = aten.mean.dim(%y, dim = [1], keepdim = true) : (tensor<32x2xf32>) -> tensor<32x1xf32>
    %v = aten.view(%m, size = [32]) : (tensor<32x1xf32>) -> tensor<32xf32>
    // CHECK: aten.neg({{.*}}) {fsdp.at = array<i64: 2688>}
    %o = aten.neg(%half) : (tensor<32xf32>) -> tensor<32xf32>
    %t = aten.t(%y) : (tensor<32x2xf32>) -> tensor<2x32xf32, #aten.strides<1, 2>>
    // CHECK: fsdp.pack({{.*}}) at [0, 64, 96, 128, 192] of @f {fsdp.at = array<i64: 640>}
    %g = fsdp.pack(%w, %v, %o, %half, %t) at [0, 64, 96, 128, 192] of @f : tensor<64xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<2x32xf32, #aten.strides<1, 2>> -> tensor<256xf32>
    %h = fsdp.start reduce_scatter avg "b"(%g) dims [0] over #shard on reduce of [@f] : tensor<256xf32> -> !fsdp.future<tensor<128xf32>>
    %s = fsdp.wait %h : !fsdp.future<tensor<128xf32>> -> tensor<128xf32>
    %n = fsdp.update sgd params(%f) grads(%s) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<128xf32>
    return %o, %n : tensor<32xf32>, tensor<128xf32>
  }
}

// -----

// States that need less alignment stand behind the others, so that none leaves
// a gap; transient tensors begin at a multiple of 128.
// CHECK: fsdp.memory = {{.*}}peak = 32928 : i64, scratch_bound = 0 : i64, states = 32896 : i64}
// CHECK: fsdp.state buffer @small : {{.*}} at 32768
// CHECK: fsdp.state buffer @large : {{.*}} at 0
// CHECK: fsdp.state buffer @other : {{.*}} at 32784
// CHECK: fsdp.state buffer @more : {{.*}} at 16384
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state buffer @small : tensor<i64>
  fsdp.state buffer @large : tensor<64x64xf32>
  fsdp.state buffer @other : tensor<8xf32>
  fsdp.state buffer @more : tensor<64x64xf32>
  func.func @"train/step"(%other: tensor<8xf32> {fsdp.state = @other}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    // CHECK: aten.relu({{.*}}) {fsdp.at = array<i64: 32896>}
    %y = aten.relu(%other) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
