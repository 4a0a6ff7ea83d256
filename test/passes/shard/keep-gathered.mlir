// RUN: fsdp-opt %s --fsdp-annotate='with={step<keep_gathered = true>}' --fsdp-keep-gathered --split-input-file --verify-diagnostics | FileCheck %s
// RUN: fsdp-opt %s --fsdp-keep-gathered --split-input-file | FileCheck %s --check-prefix=DROPPED

// DROPPED-NOT: fsdp.state gathered

// What is gathered is kept with its padding, which readers cut off; even shards
// have none. In bf16, the cast is made once, too.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // CHECK: fsdp.state gathered @"w/gathered" of @w : tensor<6x2xbf16>
  // CHECK: fsdp.state gathered @"v/gathered" of @v : tensor<4xf32>
  fsdp.state parameter @w : tensor<5x2xf32> sharded <dim 0 over #shard>
  fsdp.state frozen @v : tensor<4xf32> sharded <dim 0 over #shard>

  // CHECK-LABEL: func.func @"train/first"
  // CHECK-SAME:  %{{.+}}: tensor<6x2xbf16> {fsdp.state = @"w/gathered"}, %{{.+}}: tensor<4xf32> {fsdp.state = @"v/gathered"}, %{{.+}}: tensor<4xf32> {fsdp.input = "x"}
  // CHECK-SAME:  -> (tensor<4xf32> {fsdp.output = "y"}, tensor<6x2xbf16> {fsdp.state = @"w/gathered"}, tensor<4xf32> {fsdp.state = @"v/gathered"})
  // CHECK-NEXT:  %[[C:.+]] = aten._to_copy
  // CHECK-NEXT:  %[[P:.+]] = fsdp.all_gather %[[C]] dim 0 over #{{.+}} : tensor<3x2xbf16> -> tensor<6x2xbf16>
  // CHECK-NEXT:  %[[F:.+]] = aten.slice.Tensor(%[[P]], {{.*}}end = 5{{.*}}) : (tensor<6x2xbf16>) -> tensor<5x2xbf16>
  // CHECK-NEXT:  aten.neg(%[[F]])
  // CHECK-NEXT:  %[[V:.+]] = fsdp.all_gather %{{.+}} : tensor<2xf32> -> tensor<4xf32>
  // CHECK:       return %{{.+}}, %[[P]], %[[V]]
  func.func @"train/first"(%w: tensor<3x2xf32> {fsdp.state = @w}, %v: tensor<2xf32> {fsdp.state = @v}, %x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<part = first>} {
    %c = aten._to_copy(%w, dtype = bf16) : (tensor<3x2xf32>) -> tensor<3x2xbf16>
    %f = fsdp.all_gather %c dim 0 over #shard : tensor<3x2xbf16> -> tensor<5x2xbf16>
    %n = aten.neg(%f) : (tensor<5x2xbf16>) -> tensor<5x2xbf16>
    %g = fsdp.all_gather %v dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %y = aten.add.Tensor(%g, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }

  // CHECK-LABEL: func.func @"train/last"
  // CHECK-SAME:  %[[KW:[a-z0-9]+]]: tensor<6x2xbf16> {fsdp.state = @"w/gathered"}, %[[KV:[a-z0-9]+]]: tensor<4xf32> {fsdp.state = @"v/gathered"}
  // CHECK-NEXT:  %[[F:.+]] = aten.slice.Tensor(%[[KW]],
  // CHECK-NEXT:  aten.neg(%[[F]])
  // CHECK-NEXT:  aten.add.Tensor(%[[KV]],
  func.func @"train/last"(%w: tensor<3x2xf32> {fsdp.state = @w}, %v: tensor<2xf32> {fsdp.state = @v}, %x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<part = last>} {
    %c = aten._to_copy(%w, dtype = bf16) : (tensor<3x2xf32>) -> tensor<3x2xbf16>
    %f = fsdp.all_gather %c dim 0 over #shard : tensor<3x2xbf16> -> tensor<5x2xbf16>
    %n = aten.neg(%f) : (tensor<5x2xbf16>) -> tensor<5x2xbf16>
    %g = fsdp.all_gather %v dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %y = aten.add.Tensor(%g, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// One micro-batch has nobody to keep parameters for.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // CHECK-NOT: fsdp.state gathered
  // CHECK-LABEL: func.func @"train/step"
  // CHECK: fsdp.all_gather %{{.+}} : tensor<3xf32> -> tensor<5xf32>
  fsdp.state parameter @w : tensor<5xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<3xf32> {fsdp.state = @w}) -> (tensor<5xf32> {fsdp.output = "y"}) {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<3xf32> -> tensor<5xf32>
    %n = aten.neg(%f) : (tensor<5xf32>) -> tensor<5xf32>
    return %n : tensor<5xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<5xf32> sharded <dim 0 over #shard>
  func.func @"train/first"(%w: tensor<3xf32> {fsdp.state = @w}) -> (tensor<5xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<part = first>} {
    %r = fsdp.replay %w : tensor<3xf32>
    // expected-error @+1 {{gathers 'w' a second time; expected parameters that stay gathered after forward, with reshard 'none'}}
    %f = fsdp.all_gather %r dim 0 over #shard : tensor<3xf32> -> tensor<5xf32>
    return %f : tensor<5xf32>
  }
}
