// RUN: fsdp-opt %s --fsdp-verify-scheduled --split-input-file --verify-diagnostics

#shard = #fsdp.group<"shard", 2>
func.func @in_order(%a: tensor<2xf32>) -> tensor<4xf32> {
  %f = fsdp.start all_gather "a"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
  %w = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
  %n = aten.neg(%w) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.free %w : tensor<4xf32>
  return %n : tensor<4xf32>
}

// -----

#shard = #fsdp.group<"shard", 2>
func.func @logical(%a: tensor<2xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{is logical; expected a start and a wait}}
  %w = fsdp.all_gather %a dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
  return %w : tensor<4xf32>
}

// -----

#shard = #fsdp.group<"shard", 2>
func.func @not_waited_for(%a: tensor<4xf32>) {
  // expected-error @+1 {{is never waited for; expected one fsdp.wait}}
  %f = fsdp.start reduce_scatter avg "a"(%a) dims [0] over #shard on reduce : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
  return
}

// -----

#shard = #fsdp.group<"shard", 2>
func.func @waited_for_twice(%a: tensor<4xf32>) {
  %f = fsdp.start reduce_scatter avg "a"(%a) dims [0] over #shard on reduce : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
  // expected-note @+1 {{first wait here}}
  %w = fsdp.wait %f : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
  // expected-error @+1 {{waits for a future for the second time}}
  %v = fsdp.wait %f : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
  return
}

// -----

#shard = #fsdp.group<"shard", 2>
func.func @not_freed(%a: tensor<2xf32>) {
  %f = fsdp.start all_gather "a"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
  // expected-error @+1 {{yields a gathered tensor that is never freed; expected fsdp.free after its last use}}
  %w = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
  return
}

// -----

// The view was made before, but is read after.

#shard = #fsdp.group<"shard", 2>
func.func @read_through_view(%a: tensor<2xf32>) {
  %f = fsdp.start all_gather "a"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
  %w = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
  // expected-note @+1 {{read through this view}}
  %v = aten._unsafe_view(%w, size = [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  // expected-note @+1 {{freed here}}
  fsdp.free %w : tensor<4xf32>
  // expected-error @+1 {{reads a tensor that was freed}}
  %n = aten.neg(%v) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

#shard = #fsdp.group<"shard", 2>
func.func @freed_twice(%a: tensor<2xf32>) {
  %f = fsdp.start all_gather "a"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
  %w = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
  // expected-note @+1 {{freed here}}
  fsdp.free %w : tensor<4xf32>
  // expected-error @+1 {{frees a tensor that was freed already}}
  fsdp.free %w : tensor<4xf32>
  return
}

// -----

#shard = #fsdp.group<"shard", 2>
func.func @freed_in_flight(%a: tensor<2xf32>) {
  %f = fsdp.start all_gather "a"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
  %w = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
  // expected-note @+1 {{the transfer starts here}}
  %g = fsdp.start reduce_scatter avg "a"(%w) dims [0] over #shard on reduce : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
  // expected-error @+1 {{frees a tensor that a transfer still reads}}
  fsdp.free %w : tensor<4xf32>
  %s = fsdp.wait %g : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
  return
}
