// RUN: fsdp-opt %s --fsdp-verify-planned --split-input-file --verify-diagnostics

// A right plan.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 64 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 32 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 288 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    %b = aten.cumsum(%a, dim = 0) {fsdp.at = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
    return %b : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{has no 'fsdp.memory'}}
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 64 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 32 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 384 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    // expected-note @+1 {{by this tensor, at 128}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{lies in memory that is still in use, at 128}}
    %b = aten.cumsum(%a, dim = 0) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    return %b : tensor<8xf32>
  }
}

// -----

// With reuse an elementwise result lies where its operand lay, and nowhere else.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 64 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 32 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 384 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) attributes {fsdp.reuse} {
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{updates a tensor that lies at 128 at another address, 256}}
    %b = aten.relu(%a) {fsdp.at = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
    return %b : tensor<8xf32>
  }
}

// -----

// A view keeps its base alive, also one that its schema does not confess.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 64 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 32 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 384 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    // expected-note @+1 {{by this tensor, at 128}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    %v = aten._unsafe_view(%a, size = [2, 4]) : (tensor<8xf32>) -> tensor<2x4xf32>
    // expected-error @+1 {{lies in memory that is still in use}}
    %b = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    %c = aten.sum(%v) {fsdp.at = array<i64: 256>} : (tensor<2x4xf32>) -> tensor<f32>
    return %b : tensor<8xf32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 32 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 256 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    // expected-error @+1 {{has 1 tensors of its own and 0 addresses}}
    %a = aten.relu(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %a : tensor<8xf32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 32 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 256 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    // expected-error @+1 {{lies at 256 with 32 bytes; expected a multiple of 16 from 0 on, inside of the arena of 256}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
    return %a : tensor<8xf32>
  }
}

// -----

// Large tensors begin where kernels like it.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 32 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 32896 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<64x64xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<64x64xf32> {fsdp.output = "y"}) {
    // expected-error @+1 {{lies at 16400 with 16384 bytes; expected a multiple of 128 from 0 on}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 16400>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    return %a : tensor<64x64xf32>
  }
}

// -----

// expected-error @+1 {{states an arena of 512 bytes; its tensors end at 160}}
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 32 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    return %a : tensor<8xf32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 64 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 256 : i64, scratch_bound = 0 : i64, states = 256 : i64}} {
  // expected-note @+1 {{this one}}
  fsdp.state buffer @a : tensor<40xf32> at 0
  // expected-error @+1 {{overlaps another state}}
  fsdp.state buffer @b : tensor<8xf32> at 128
}

// -----

// An update in place at another address.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 4 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 256 : i64, scratch_bound = 0 : i64, states = 128 : i64}} {
  fsdp.state buffer @a : tensor<f32> at 0
  func.func @"train/step"(%a: tensor<f32> {fsdp.state = @a}) -> (tensor<f32> {fsdp.state = @a}) {
    // expected-error @+1 {{updates a tensor that lies at 0 at another address, 128}}
    %b = aten.add.Scalar(%a, other = 1.0) {fsdp.at = array<i64: 128>} : (tensor<f32>) -> tensor<f32>
    return %b : tensor<f32>
  }
}

// -----

// A read of the old value after the optimizer.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 4 : i64, params = 4 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 256 : i64}} {
  fsdp.state parameter @w : tensor<4xf32> at 0
  fsdp.state scalar @lr : tensor<f32> at 128
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr})
      -> (tensor<4xf32> {fsdp.state = @w}, tensor<4xf32> {fsdp.output = "y"}) {
    %g = aten.relu(%w) {fsdp.at = array<i64: 256>} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-note @+1 {{overwritten here}}
    %n = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 {fsdp.at = array<i64: 0>} : tensor<4xf32>
    // expected-error @+1 {{reads a value that was overwritten}}
    %y = aten.relu(%w) {fsdp.at = array<i64: 384>} : (tensor<4xf32>) -> tensor<4xf32>
    return %n, %y : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// Padding that nobody zeroed.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 256 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"() {
    %g = aten.ones(size = [3]) {fsdp.at = array<i64: 0>} : () -> tensor<3xf32>
    // expected-error @+1 {{moves 1 rows of padding that were not zeroed}}
    %f = fsdp.start reduce_scatter avg "a"(%g) dims [0] over #shard on reduce {fsdp.at = array<i64: 128>} : tensor<3xf32> -> !fsdp.future<tensor<2xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    return
  }
}

// -----

// A transfer's start stands where all that it needs has been issued: padding is
// not zeroed while it runs.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 256 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"() {
    %g = aten.ones(size = [3]) {fsdp.at = array<i64: 0>} : () -> tensor<3xf32>
    fsdp.zero_padding %g dim 0 over #shard : tensor<3xf32>
    // expected-note @+1 {{the transfer starts here}}
    %f = fsdp.start reduce_scatter avg "a"(%g) dims [0] over #shard on reduce {fsdp.at = array<i64: 128>} : tensor<3xf32> -> !fsdp.future<tensor<2xf32>>
    // expected-error @+1 {{writes memory at 0 that a transfer reads; expected its 'fsdp.wait' before}}
    fsdp.zero_padding %g dim 0 over #shard : tensor<3xf32>
    %r = fsdp.wait %f : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    return
  }
}

// -----

// An update in place of what is being gathered.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 256 : i64}} {
  fsdp.state parameter @w : tensor<8xf32> sharded <dim 0 over #shard> at 0
  fsdp.state scalar @lr : tensor<f32> at 128
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr}) -> (tensor<4xf32> {fsdp.state = @w}) {
    %g = aten.ones(size = [4]) {fsdp.at = array<i64: 256>} : () -> tensor<4xf32>
    // expected-note @+1 {{the transfer starts here}}
    %f = fsdp.start all_gather "w"(%w) dims [0] over #shard on gather {fsdp.at = array<i64: 384>} : tensor<4xf32> -> !fsdp.future<tensor<8xf32>>
    // expected-error @+1 {{writes memory at 0 that a transfer reads}}
    %n = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 {fsdp.at = array<i64: 0>} : tensor<4xf32>
    %r = fsdp.wait %f : !fsdp.future<tensor<8xf32>> -> tensor<8xf32>
    return %n : tensor<4xf32>
  }
}

// -----

// To read what is being gathered does no harm, nor is a view a read.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 416 : i64, scratch_bound = 0 : i64, states = 128 : i64}} {
  fsdp.state parameter @w : tensor<8xf32> sharded <dim 0 over #shard> at 0
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}) -> (tensor<4xf32> {fsdp.output = "y"}) {
    %f = fsdp.start all_gather "w"(%w) dims [0] over #shard on gather {fsdp.at = array<i64: 256>} : tensor<4xf32> -> !fsdp.future<tensor<8xf32>>
    %h = fsdp.start all_gather "w"(%w) dims [0] over #shard on gather {fsdp.at = array<i64: 384>} : tensor<4xf32> -> !fsdp.future<tensor<8xf32>>
    %y = aten.relu(%w) {fsdp.at = array<i64: 128>} : (tensor<4xf32>) -> tensor<4xf32>
    %v = aten.view(%w, size = [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
    %r = fsdp.wait %f : !fsdp.future<tensor<8xf32>> -> tensor<8xf32>
    %s = fsdp.wait %h : !fsdp.future<tensor<8xf32>> -> tensor<8xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// What is reduced in place may not be moved elsewhere meanwhile.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 256 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"() {
    %g = aten.ones(size = [4]) {fsdp.at = array<i64: 0>} : () -> tensor<4xf32>
    // expected-note @+1 {{overwritten here}}
    %f = fsdp.start all_reduce avg "a"(%g) over #shard for metric on reduce {fsdp.at = array<i64: 0>} : tensor<4xf32> -> !fsdp.future<tensor<4xf32>>
    // expected-error @+1 {{reads a value that was overwritten}}
    %h = fsdp.start all_gather "a"(%g) dims [0] over #shard on gather {fsdp.at = array<i64: 128>} : tensor<4xf32> -> !fsdp.future<tensor<8xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %s = fsdp.wait %h : !fsdp.future<tensor<8xf32>> -> tensor<8xf32>
    return
  }
}

// -----

// Without a wait nothing says until when its memory is in use.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 256 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"() {
    %g = aten.ones(size = [4]) {fsdp.at = array<i64: 0>} : () -> tensor<4xf32>
    // expected-error @+1 {{is never waited for; expected one 'fsdp.wait' for its future}}
    %f = fsdp.start reduce_scatter avg "a"(%g) dims [0] over #shard on reduce {fsdp.at = array<i64: 128>} : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    return
  }
}

// -----

// A transfer's memory is in use until the wait, not only at the start.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 256 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"() {
    // expected-note @+1 {{by this tensor, at 0}}
    %g = aten.ones(size = [4]) {fsdp.at = array<i64: 0>} : () -> tensor<4xf32>
    %f = fsdp.start reduce_scatter avg "a"(%g) dims [0] over #shard on reduce {fsdp.at = array<i64: 128>} : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    // expected-error @+1 {{lies in memory that is still in use, at 0}}
    %h = aten.ones(size = [4]) {fsdp.at = array<i64: 0>} : () -> tensor<4xf32>
    %r = fsdp.wait %f : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    return
  }
}

// -----

// What is packed may not have been made elsewhere.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 96 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 32 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 384 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<40xf32> {fsdp.output = "y"}) {
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{lies at 288; expected 256, 128 bytes behind the beginning of what it is packed into}}
    %b = aten.neg(%x) {fsdp.at = array<i64: 288>} : (tensor<8xf32>) -> tensor<8xf32>
    %p = fsdp.pack(%a, %b) at [0, 32] {fsdp.at = array<i64: 128>} : tensor<8xf32>, tensor<8xf32> -> tensor<40xf32>
    return %p : tensor<40xf32>
  }
}

// -----

// Nor may anything else lie there from the moment at which the first part is made.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 96 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 32 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 384 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<40xf32> {fsdp.output = "y"}) {
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{lies in memory that is still in use, at 256}}
    %t = aten.exp(%x) {fsdp.at = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
    %b = aten.neg(%t) {fsdp.at = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-note @+1 {{by this tensor, at 128}}
    %p = fsdp.pack(%a, %b) at [0, 32] {fsdp.at = array<i64: 128>} : tensor<8xf32>, tensor<8xf32> -> tensor<40xf32>
    return %p : tensor<40xf32>
  }
}
