// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<layout = fsdp2>}' --fsdp-flatten-buckets --split-input-file --verify-diagnostics | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["b"], layout = fsdp2>]>}' --fsdp-flatten-buckets --split-input-file | FileCheck %s --check-prefix=RULE

// Rows are left, and marked; what is whole is not.

// CHECK:     fsdp.state parameter @w : tensor<13x17xf32> sharded <dim 0 over #shard> bucket "a" copied
// CHECK:     fsdp.state frozen @v : tensor<13xf32> sharded <dim 0 over #shard> bucket "b" copied
// CHECK:     fsdp.state parameter @s : tensor<f32> bucket "b"{{$}}
// CHECK-NOT: fsdp.state
// RULE:      fsdp.state parameter @w : tensor<13x17xf32> sharded <dim 0 over #shard> bucket "a"{{$}}
// RULE-NEXT: fsdp.state frozen @v : {{.*}} copied
// RULE-NEXT: fsdp.state parameter @s : {{.*}} bucket "b"{{$}}
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<13x17xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state frozen @v : tensor<13xf32> sharded <dim 0 over #shard> bucket "b"
  fsdp.state parameter @s : tensor<f32> bucket "b"
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @v : tensor<4xf32> sharded <dim 0 over #shard> bucket "b"
  // expected-error @+1 {{cannot be in a bucket of the layout fsdp2: it is sharded along dim 1; write bucket_layout: rows for 'a'}}
  fsdp.state frozen @w : tensor<4x4xf32> sharded <dim 1 over #shard> bucket "a"
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @v : tensor<4xf32> sharded <dim 0 over #shard> bucket "b"
  // expected-error @+1 {{cannot be in a bucket of the layout fsdp2: it has no elements; write bucket_layout: rows for 'a'}}
  fsdp.state frozen @w : tensor<0x4xf32> sharded <dim 0 over #shard> bucket "a"
}
