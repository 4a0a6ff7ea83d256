// RUN: fsdp-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expected a positive size of mesh axis 'shard', found 0}}
module attributes {fsdp.mesh = #fsdp.mesh<shard = 0>} {}

// -----

// expected-error @+1 {{expected distinct mesh axes, found 'shard' twice}}
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2, shard = 4>} {}

// -----

// expected-error @+1 {{expected a positive size and stride of group 'shard', found 2 : 0}}
#shard = #fsdp.group<"shard", 2 : 0>

// -----

func.func @f(%w: tensor<7xf32>) {
  // expected-error @+2 {{failed to parse Fsdp_ReductionAttr}}
  // expected-error @+1 {{expected ::fsdp::Reduction to be one of: sum, avg, max}}
  %0 = fsdp.all_reduce mean %w over <"shard", 2> for metric : tensor<7xf32>
  return
}

// -----

// expected-error @+1 {{expected a finite scale (f64) of an adapter}}
module attributes {fsdp.adapters = [#fsdp.adapter<base = @w, down = @a, up = @b, scale = 0x7FF0000000000000>]} {}

// -----

// expected-error @+1 {{expected a rank of adapters from 1, found 0}}
module attributes {fsdp.adapter_settings = #fsdp.adapter_settings<rank = 0>} {}

// -----

// expected-error @+1 {{expected a dropout of adapters from 0 and below 1}}
module attributes {fsdp.adapter_settings = #fsdp.adapter_settings<rank = 1, dropout = 1.0>} {}
