// RUN: fsdp-opt %s --fsdp-verify-memory --split-input-file --verify-diagnostics

// A right plan: an elementwise result may lie over the operand that dies there,
// a running sum over what it grows, a new value of a state over the old one.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 256 : i64}} {
  fsdp.state parameter @w : tensor<4xf32> at 0
  fsdp.state scalar @lr : tensor<f32> at 128
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr}, %x: tensor<4xf32> {fsdp.at = array<i64: 256>, fsdp.input = "x"})
      -> (tensor<4xf32> {fsdp.state = @w}, tensor<4xf32> {fsdp.output = "y"}) {
    %a = aten.relu(%x) {fsdp.at = array<i64: 384>} : (tensor<4xf32>) -> tensor<4xf32>
    %g = aten.neg(%a) {fsdp.at = array<i64: 384>} : (tensor<4xf32>) -> tensor<4xf32>
    %f = fsdp.start all_reduce avg "a"(%g) over #shard for metric on reduce {fsdp.at = array<i64: 384>} : tensor<4xf32> -> !fsdp.future<tensor<4xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %s = fsdp.accumulate %x into %r {fsdp.at = array<i64: 384>} : tensor<4xf32>, tensor<4xf32>
    %n = fsdp.update sgd params(%w) grads(%s) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 {fsdp.at = array<i64: 0>} : tensor<4xf32>
    return %n, %s : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// expected-error @+1 {{has no 'fsdp.memory'}}
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
}

// -----

// What is not elementwise reads its operand while it writes.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    // expected-note @+1 {{by this, at 128}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{writes over memory that is still in use, at 128}}
    %b = aten.cumsum(%a, dim = 0) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    return %b : tensor<8xf32>
  }
}

// -----

// An address that is a little off; elementwise does not help.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    // expected-note @+1 {{by this, at 128}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{writes over memory that is still in use, at 144}}
    %b = aten.neg(%a) {fsdp.at = array<i64: 144>} : (tensor<8xf32>) -> tensor<8xf32>
    return %b : tensor<8xf32>
  }
}

// -----

// Its elements are read in another order than they are written in.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<4x4xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<4x4xf32> {fsdp.output = "y"}) {
    // expected-note @+1 {{by this, at 128}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = aten.t(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    // expected-error @+1 {{writes over memory that is still in use, at 128}}
    %b = aten.add.Tensor(%a, %t) {fsdp.at = array<i64: 128>} : (tensor<4x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<4x4xf32>
    return %b : tensor<4x4xf32>
  }
}

// -----

// A view keeps its base, also one that its schema does not confess.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    // expected-note @+1 {{by this, at 128}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    %v = aten._unsafe_view(%a, size = [2, 4]) : (tensor<8xf32>) -> tensor<2x4xf32>
    // expected-error @+1 {{writes over memory that is still in use, at 128}}
    %b = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    %c = aten.sum(%v) {fsdp.at = array<i64: 256>} : (tensor<2x4xf32>) -> tensor<f32>
    return %b : tensor<8xf32>
  }
}

// -----

// The old value of a parameter, behind the optimizer.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 256 : i64}} {
  // expected-note @+1 {{the value is this one}}
  fsdp.state parameter @w : tensor<4xf32> at 0
  fsdp.state scalar @lr : tensor<f32> at 128
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr})
      -> (tensor<4xf32> {fsdp.state = @w}, tensor<4xf32> {fsdp.output = "y"}) {
    %g = aten.relu(%w) {fsdp.at = array<i64: 256>} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-note @+1 {{overwritten here}}
    %n = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 {fsdp.at = array<i64: 0>} : tensor<4xf32>
    // expected-error @+1 {{reads a value that was overwritten, at 0}}
    %y = aten.relu(%w) {fsdp.at = array<i64: 384>} : (tensor<4xf32>) -> tensor<4xf32>
    return %n, %y : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// An optimizer works where its parameter lies.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 256 : i64}} {
  fsdp.state parameter @w : tensor<4xf32> at 0
  fsdp.state scalar @lr : tensor<f32> at 128
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr}) -> (tensor<4xf32> {fsdp.state = @w}) {
    %g = aten.relu(%w) {fsdp.at = array<i64: 256>} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{updates an operand in place; its result lies at 384, and the operand at 0}}
    %n = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 {fsdp.at = array<i64: 384>} : tensor<4xf32>
    return %n : tensor<4xf32>
  }
}

// -----

// A sum in neither of its operands' places.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    %b = aten.neg(%x) {fsdp.at = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{updates an operand in place; its result lies at 384, and the operand at 128}}
    %s = fsdp.accumulate %a into %b {fsdp.at = array<i64: 384>} : tensor<8xf32>, tensor<8xf32>
    return %s : tensor<8xf32>
  }
}

// -----

// The copy that a reduction in place needs was dropped.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<4xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "y"}) {
    // expected-note @+1 {{the value is this one}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-note @+1 {{overwritten here}}
    %f = fsdp.start all_reduce avg "a"(%a) over #shard for metric on reduce {fsdp.at = array<i64: 128>} : tensor<4xf32> -> !fsdp.future<tensor<4xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    // expected-error @+1 {{reads a value that was overwritten, at 128}}
    %b = aten.add.Tensor(%a, %r) {fsdp.at = array<i64: 256>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %b : tensor<4xf32>
  }
}

// -----

// An input is there again for the next step.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  // expected-note @+1 {{the value is this one}}
  func.func @"train/step"(%x: tensor<4xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "y"}) {
    // expected-note @+1 {{overwritten here}}
    %f = fsdp.start all_reduce avg "a"(%x) over #shard for metric on reduce {fsdp.at = array<i64: 0>} : tensor<4xf32> -> !fsdp.future<tensor<4xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    // expected-error @+1 {{reads a value that was overwritten, at 0}}
    return %r : tensor<4xf32>
  }
}

// -----

// A transfer reads until its wait.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"() {
    // expected-note @+1 {{by this, at 0}}
    %g = aten.ones(size = [4]) {fsdp.at = array<i64: 0>} : () -> tensor<4xf32>
    %f = fsdp.start reduce_scatter avg "a"(%g) dims [0] over #shard on reduce {fsdp.at = array<i64: 128>} : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    // expected-error @+1 {{writes over memory that is still in use, at 0}}
    %h = aten.ones(size = [4]) {fsdp.at = array<i64: 0>} : () -> tensor<4xf32>
    %r = fsdp.wait %f : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    return
  }
}

// -----

// And writes from its start on, whether or not anybody reads what it brings.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<2xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) {
    // expected-note @+1 {{by this, at 128}}
    %f = fsdp.start all_gather "a"(%x) dims [0] over #shard on gather {fsdp.at = array<i64: 128>} : tensor<2xf32> -> !fsdp.future<tensor<3xf32>>
    // The padding row.
    // expected-error @+1 {{writes over memory that is still in use, at 140}}
    %h = aten.ones(size = []) {fsdp.at = array<i64: 140>} : () -> tensor<f32>
    %r = fsdp.wait %f : !fsdp.future<tensor<3xf32>> -> tensor<3xf32>
    return
  }
}

// -----

// Two members of a transfer that overlap.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<2xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) {
    // expected-error @+2 {{writes over memory that is still in use, at 136}}
    // expected-note @+1 {{by this, at 128}}
    %f = fsdp.start all_gather "a"(%x, %x) dims [0, 0] over #shard on gather {fsdp.at = array<i64: 128, 136>} : tensor<2xf32>, tensor<2xf32> -> !fsdp.future<tensor<4xf32>, tensor<4xf32>>
    %r, %s = fsdp.wait %f : !fsdp.future<tensor<4xf32>, tensor<4xf32>> -> tensor<4xf32>, tensor<4xf32>
    return
  }
}

// -----

// Padding that nobody zeroed.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"() {
    %g = aten.ones(size = [3]) {fsdp.at = array<i64: 0>} : () -> tensor<3xf32>
    // expected-error @+1 {{reduces 4 bytes of padding that nothing zeroed}}
    %f = fsdp.start reduce_scatter avg "a"(%g) dims [0] over #shard on reduce {fsdp.at = array<i64: 128>} : tensor<3xf32> -> !fsdp.future<tensor<2xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    return
  }
}

// -----

// Or that is no longer zero.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"() {
    %g = aten.ones(size = [3]) {fsdp.at = array<i64: 0>} : () -> tensor<3xf32>
    // expected-note @+1 {{by this, at 12}}
    fsdp.zero_padding %g dim 0 over #shard : tensor<3xf32>
    // expected-error @+1 {{writes over memory that is still in use, at 12}}
    %h = aten.ones(size = []) {fsdp.at = array<i64: 12>} : () -> tensor<f32>
    %f = fsdp.start reduce_scatter avg "a"(%g) dims [0] over #shard on reduce {fsdp.at = array<i64: 128>} : tensor<3xf32> -> !fsdp.future<tensor<2xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    return
  }
}

// -----

// Zeros go over what lies behind a gradient that has no room for them: here the
// copy of a state was dropped.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 128 : i64}} {
  fsdp.state buffer @a : tensor<3xf32> at 0
  // expected-note @+1 {{by this, at 12}}
  fsdp.state buffer @b : tensor<f32> at 12
  func.func @"train/step"(%a: tensor<3xf32> {fsdp.state = @a}) {
    // expected-error @+1 {{writes over memory that is still in use, at 12}}
    fsdp.zero_padding %a dim 0 over #shard : tensor<3xf32>
    %f = fsdp.start reduce_scatter avg "a"(%a) dims [0] over #shard on reduce {fsdp.at = array<i64: 128>} : tensor<3xf32> -> !fsdp.future<tensor<2xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    return
  }
}

// -----

// What was given back is not there any more.
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<2xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "y"}) {
    // expected-note @+1 {{the value is this one}}
    %f = fsdp.start all_gather "a"(%x) dims [0] over #shard on gather {fsdp.at = array<i64: 128>} : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    fsdp.free %r : tensor<4xf32>
    // expected-error @+1 {{reads a value that was overwritten, at 128}}
    %y = aten.relu(%r) {fsdp.at = array<i64: 256>} : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// Packed where they were made: %b is not where it belongs, but in the way.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<40xf32> {fsdp.output = "y"}) {
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-note @+1 {{by this, at 192}}
    %b = aten.neg(%x) {fsdp.at = array<i64: 192>} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{writes over memory that is still in use, at 192}}
    %p = fsdp.pack(%a, %b) at [0, 32] {fsdp.at = array<i64: 128>} : tensor<8xf32>, tensor<8xf32> -> tensor<40xf32>
    return %p : tensor<40xf32>
  }
}

// -----

// New values of states are copied one after the other: an exchange needs a third
// place.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 256 : i64}} {
  // expected-note @+1 {{by this, at 0}}
  fsdp.state buffer @a : tensor<4xf32> at 0
  fsdp.state buffer @b : tensor<4xf32> at 128
  func.func @"train/step"(%a: tensor<4xf32> {fsdp.state = @a}, %b: tensor<4xf32> {fsdp.state = @b})
      -> (tensor<4xf32> {fsdp.state = @a}, tensor<4xf32> {fsdp.state = @b}) {
    // expected-error @+1 {{writes over memory that is still in use, at 0}}
    return %b, %a : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// A state that the program does not name keeps its value.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 256 : i64}} {
  // expected-note @+1 {{by this, at 0}}
  fsdp.state buffer @a : tensor<4xf32> at 0
  func.func @"eval/step"(%x: tensor<4xf32> {fsdp.at = array<i64: 128>, fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = eval>} {
    // expected-error @+1 {{writes over memory that is still in use, at 0}}
    %y = aten.relu(%x) {fsdp.at = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// A running sum is needed until the last micro-batch, and not behind it.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.micro_batches = 2 : i64, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 128 : i64}} {
  fsdp.state scalar @sum : tensor<4xf32> at 0
  func.func @"train/first"(%s: tensor<4xf32> {fsdp.state = @sum}, %x: tensor<4xf32> {fsdp.at = array<i64: 128>, fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.state = @sum}) attributes {fsdp.program = #fsdp.program<part = first>} {
    %y = aten.relu(%x) {fsdp.at = array<i64: 256>} : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
  func.func @"train/last"(%s: tensor<4xf32> {fsdp.state = @sum}, %x: tensor<4xf32> {fsdp.at = array<i64: 128>, fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<part = last>} {
    %n = fsdp.accumulate %x into %s {fsdp.at = array<i64: 0>} : tensor<4xf32>, tensor<4xf32>
    return %n : tensor<4xf32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.micro_batches = 2 : i64, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 128 : i64}} {
  // expected-note @+1 {{the value is this one}}
  fsdp.state scalar @sum : tensor<4xf32> at 0
  func.func @"train/first"(%s: tensor<4xf32> {fsdp.state = @sum}, %x: tensor<4xf32> {fsdp.at = array<i64: 128>, fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<part = first>} {
    // expected-note @+1 {{overwritten here}}
    %n = fsdp.accumulate %x into %s {fsdp.at = array<i64: 0>} : tensor<4xf32>, tensor<4xf32>
    // expected-error @+1 {{reads a value that was overwritten, at 0}}
    return %n : tensor<4xf32>
  }
}

// -----

// Addresses outside of the arena, too few, too many.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 128 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    // expected-error @+1 {{writes from 112 to 144, outside of the arena of 128}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 112>} : (tensor<8xf32>) -> tensor<8xf32>
    return %a : tensor<8xf32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    // expected-error @+1 {{has more tensors of its own than its 0 addresses}}
    %a = aten.relu(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %a : tensor<8xf32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<8xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<8xf32> {fsdp.output = "y"}) {
    // expected-error @+1 {{has 1 tensors of its own and 2 addresses}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 128, 256>} : (tensor<8xf32>) -> tensor<8xf32>
    return %a : tensor<8xf32>
  }
}

// -----

// A product is added to a matrix in its place.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<4x4xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<4x4xf32> {fsdp.output = "y"}) {
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = aten.addmm(%a, %x, %x) {fsdp.at = array<i64: 128>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %b : tensor<4x4xf32>
  }
}

// -----

// Not to one of its factors.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<4x4xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<4x4xf32> {fsdp.output = "y"}) {
    // expected-note @+1 {{by this, at 128}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{writes over memory that is still in use, at 128}}
    %b = aten.addmm(%x, %a, %x) {fsdp.at = array<i64: 128>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %b : tensor<4x4xf32>
  }
}

// -----

// Nor to what is one as well.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>, fsdp.memory = {activations = 0 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 0 : i64, inputs = 0 : i64, optimizer = 0 : i64, params = 0 : i64, peak = 512 : i64, scratch_bound = 0 : i64, states = 0 : i64}} {
  func.func @"train/step"(%x: tensor<4x4xf32> {fsdp.at = array<i64: 0>, fsdp.input = "x"}) -> (tensor<4x4xf32> {fsdp.output = "y"}) {
    // expected-note @+1 {{by this, at 128}}
    %a = aten.relu(%x) {fsdp.at = array<i64: 128>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // expected-error @+1 {{writes over memory that is still in use, at 128}}
    %b = aten.addmm(%a, %x, %a) {fsdp.at = array<i64: 128>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %b : tensor<4x4xf32>
  }
}
