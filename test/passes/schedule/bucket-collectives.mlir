// RUN: fsdp-opt %s --fsdp-bucket-collectives --split-input-file --verify-diagnostics | FileCheck %s

#shard = #fsdp.group<"shard", 2>

// Gathers come together at the first, with what makes their shards, in the order
// of the state table whatever that of their uses, and whatever their types; a second
// life is a transfer of its own. Reductions come together at the last, those of
// another element type by themselves.

// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    %[[A:[^:]+]]: tensor<2xf32> {fsdp.state = @a}, %[[B:[^:]+]]: tensor<2xf32> {fsdp.state = @b}, %[[C:[^:]+]]: tensor<2xf64> {fsdp.state = @c}, %[[D:[^:]+]]: tensor<2xf32> {fsdp.state = @d}
// CHECK-NEXT:    %[[AC:.+]] = aten._to_copy(%[[A]], dtype = f32)
// CHECK-NEXT:    %[[F1:.+]] = fsdp.start all_gather "one"(%[[AC]], %[[B]], %[[C]]) dims [0, 0, 0] over #shard on gather
// CHECK-NEXT:    %[[W1_0:[^ ,]+]], %[[W1_1:[^ ,]+]], %[[W2:[^ ,]+]] = fsdp.wait %[[F1]]
// CHECK-NEXT:    %[[S:.+]] = aten.sum(%[[W1_1]])
// CHECK-NEXT:    aten.sum(%[[W1_0]])
// CHECK-NEXT:    %[[F3:.+]] = fsdp.start all_gather "two"(%[[D]])
// CHECK-NEXT:    %[[W3:.+]] = fsdp.wait %[[F3]]
// CHECK-NEXT:    %[[R:.+]] = fsdp.replay %[[B]]
// CHECK-NEXT:    %[[F4:.+]] = fsdp.start all_gather "one"(%[[R]]) dims [0] over
// CHECK-NEXT:    %[[W4:.+]] = fsdp.wait %[[F4]]
// CHECK-NEXT:    %[[F5:.+]] = fsdp.start reduce_scatter avg "two"(%[[W3]]) dims [0] over #shard on reduce of [@d]
// CHECK-NEXT:    fsdp.wait %[[F5]]
// CHECK-NEXT:    aten.neg(%[[W4]])
// CHECK-NEXT:    %[[F6:.+]] = fsdp.start reduce_scatter avg "one"(%[[W1_0]], %[[W4]]) dims [0, 0] over #shard on reduce of [@a, @b]
// CHECK-NEXT:    %[[W6_0:[^ ,]+]], %[[W6_1:[^ ,]+]] = fsdp.wait %[[F6]]
// CHECK-NEXT:    %[[F7:.+]] = fsdp.start reduce_scatter avg "one/f64"(%[[W2]]) dims [0] over #shard on reduce of [@c]
// CHECK-NEXT:    %[[W7:.+]] = fsdp.wait %[[F7]]
// CHECK-NEXT:    %[[F8:.+]] = fsdp.start all_reduce avg "metrics"(%[[S]], %[[S]]) over #shard for metric on reduce
// CHECK-NEXT:    %[[W8_0:[^ ,]+]], %[[W8_1:[^ ,]+]] = fsdp.wait %[[F8]]
// CHECK-NEXT:    return %[[W8_0]], %[[W8_1]], %[[W6_0]], %[[W6_1]], %[[W7]]
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @a : tensor<4xf32> sharded <dim 0 over #shard> bucket "one"
  fsdp.state parameter @b : tensor<4xf32> sharded <dim 0 over #shard> bucket "one"
  fsdp.state parameter @c : tensor<4xf64> sharded <dim 0 over #shard> bucket "one"
  fsdp.state parameter @d : tensor<4xf32> sharded <dim 0 over #shard> bucket "two"
  func.func @"train/step"(%a: tensor<2xf32> {fsdp.state = @a}, %b: tensor<2xf32> {fsdp.state = @b}, %c: tensor<2xf64> {fsdp.state = @c}, %d: tensor<2xf32> {fsdp.state = @d})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "grad_norm"}, tensor<2xf32> {fsdp.gradient = @a}, tensor<2xf32> {fsdp.gradient = @b}, tensor<2xf64> {fsdp.gradient = @c}) {
    %bf = fsdp.all_gather %b dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %s = aten.sum(%bf) : (tensor<4xf32>) -> tensor<f32>
    %ac = aten._to_copy(%a, dtype = f32) : (tensor<2xf32>) -> tensor<2xf32>
    %af = fsdp.all_gather %ac dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %t = aten.sum(%af) : (tensor<4xf32>) -> tensor<f32>
    %cf = fsdp.all_gather %c dim 0 over #shard : tensor<2xf64> -> tensor<4xf64>
    %df = fsdp.all_gather %d dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %br = fsdp.replay %b : tensor<2xf32>
    %bg = fsdp.all_gather %br dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %rd = fsdp.reduce_scatter avg %df dim 0 over #shard of @d : tensor<4xf32> -> tensor<2xf32>
    %rb = fsdp.reduce_scatter avg %bg dim 0 over #shard of @b : tensor<4xf32> -> tensor<2xf32>
    %n = aten.neg(%bg) : (tensor<4xf32>) -> tensor<4xf32>
    %ra = fsdp.reduce_scatter avg %af dim 0 over #shard of @a : tensor<4xf32> -> tensor<2xf32>
    %rc = fsdp.reduce_scatter avg %cf dim 0 over #shard of @c : tensor<4xf64> -> tensor<2xf64>
    %m = fsdp.all_reduce avg %s over #shard for metric : tensor<f32>
    %o = fsdp.all_reduce avg %s over #shard for metric : tensor<f32>
    return %m, %o, %ra, %rb, %rc : tensor<f32>, tensor<f32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf64>
  }
}

// -----

// A reduced gradient that is read before its bucket is complete.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @a : tensor<4xf32> sharded <dim 0 over #shard> bucket "one"
  fsdp.state parameter @b : tensor<4xf32> sharded <dim 0 over #shard> bucket "one"
  func.func @"train/step"(%g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<2xf32> {fsdp.gradient = @a}, tensor<2xf32> {fsdp.gradient = @b}) {
    // expected-error @+1 {{is read before all members of its bucket 'one' are computed}}
    %a = fsdp.reduce_scatter avg %g dim 0 over #shard of @a : tensor<4xf32> -> tensor<2xf32>
    // expected-note @+1 {{read here}}
    %n = aten.neg(%a) : (tensor<2xf32>) -> tensor<2xf32>
    // expected-note @+1 {{the last member}}
    %b = fsdp.reduce_scatter avg %g dim 0 over #shard of @b : tensor<4xf32> -> tensor<2xf32>
    return %n, %b : tensor<2xf32>, tensor<2xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @a : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%a: tensor<2xf32> {fsdp.state = @a}) -> (tensor<4xf32> {fsdp.output = "y"}) {
    // expected-error @+1 {{expects to move a parameter that has a bucket, or its gradient; run fsdp-assign-buckets first}}
    %f = fsdp.all_gather %a dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    return %f : tensor<4xf32>
  }
}

// -----

// Replicas reduce what the shards' reduction left, in one transfer; casts of
// members that are computed early stand behind it as well. A parameter that is
// not sharded has a transfer of its own.

#shard = #fsdp.group<"shard", 2>
#replicate = #fsdp.group<"replicate", 2 : 2>
#world = #fsdp.group<"world", 4>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 2>} {
  fsdp.state parameter @a : tensor<4xf32> sharded <dim 0 over #shard> bucket "one"
  fsdp.state parameter @b : tensor<4xf32> sharded <dim 0 over #shard> bucket "one"
  fsdp.state parameter @s : tensor<f32> bucket "one"
  // CHECK-LABEL: func.func @"train/replicas"
  // CHECK-NEXT:    %[[N:.+]] = aten.neg
  // CHECK-NEXT:    %[[S1:.+]] = aten.sum
  // CHECK-NEXT:    %[[F3:.+]] = fsdp.start all_reduce avg "one/f32"(%[[S1]]) over #[[WORLD:.+]] on replicate of [@s]
  // CHECK-NEXT:    %[[W3:.+]] = fsdp.wait %[[F3]]
  // CHECK-NEXT:    %[[F1:.+]] = fsdp.start reduce_scatter avg "one"(%[[N]], %{{.+}}) dims [0, 0] over #[[SHARD:.+]] on reduce of [@a, @b]
  // CHECK-NEXT:    %[[W1_0:[^ ,]+]], %[[W1_1:[^ ,]+]] = fsdp.wait %[[F1]]
  // CHECK-NEXT:    %[[F2:.+]] = fsdp.start all_reduce avg "one"(%[[W1_0]], %[[W1_1]]) over #[[REPLICATE:.+]] on replicate of [@a, @b]
  // CHECK-NEXT:    %[[W2_0:[^ ,]+]], %[[W2_1:[^ ,]+]] = fsdp.wait %[[F2]]
  // CHECK-NEXT:    %[[CB:.+]] = aten._to_copy(%[[W2_1]], dtype = f32)
  // CHECK-NEXT:    %[[CA:.+]] = aten._to_copy(%[[W2_0]], dtype = f32)
  // CHECK-NEXT:    return %[[CA]], %[[CB]], %[[W3]]
  func.func @"train/replicas"(%g: tensor<4xbf16> {fsdp.input = "g"}) -> (tensor<2xf32> {fsdp.gradient = @a}, tensor<2xf32> {fsdp.gradient = @b}, tensor<f32> {fsdp.gradient = @s}) {
    %b = fsdp.reduce_scatter avg %g dim 0 over #shard of @b : tensor<4xbf16> -> tensor<2xbf16>
    %br = fsdp.all_reduce avg %b over #replicate of @b : tensor<2xbf16>
    %bc = aten._to_copy(%br, dtype = f32) : (tensor<2xbf16>) -> tensor<2xf32>
    %n = aten.neg(%g) : (tensor<4xbf16>) -> tensor<4xbf16>
    %1 = aten.sum(%n, dtype = f32) : (tensor<4xbf16>) -> tensor<f32>
    %s = fsdp.all_reduce avg %1 over #world of @s : tensor<f32>
    %a = fsdp.reduce_scatter avg %n dim 0 over #shard of @a : tensor<4xbf16> -> tensor<2xbf16>
    %ar = fsdp.all_reduce avg %a over #replicate of @a : tensor<2xbf16>
    %ac = aten._to_copy(%ar, dtype = f32) : (tensor<2xbf16>) -> tensor<2xf32>
    return %ac, %bc, %s : tensor<2xf32>, tensor<2xf32>, tensor<f32>
  }
}

// -----

// What is copied into one tensor is of one type. The greatest values of parameters
// travel together, apart from metrics.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @a : tensor<4xf32> sharded <dim 0 over #shard> bucket "one" copied
  fsdp.state frozen @b : tensor<4xbf16> sharded <dim 0 over #shard> bucket "one" copied
  // CHECK-LABEL: func.func @"infer/copied"
  // CHECK-SAME:    (%[[A:[^:]+]]: tensor<2xf32> {{.*}}, %[[B:[^:]+]]: tensor<2xbf16>
  // CHECK-NEXT:    %[[AN:.+]] = fsdp.amax %[[A]]
  // CHECK-NEXT:    %[[BN:.+]] = fsdp.amax %[[B]]
  // CHECK-NEXT:    %[[F:.+]] = fsdp.start all_reduce max "float8/maxima"(%[[AN]], %[[BN]]) over #{{.+}} for scale on reduce
  // CHECK-NEXT:    fsdp.wait %[[F]]
  // CHECK-NEXT:    fsdp.start all_gather "one"(%[[A]])
  // CHECK-NEXT:    fsdp.wait
  // CHECK-NEXT:    fsdp.start all_gather "one/bf16"(%[[B]])
  // CHECK-NEXT:    fsdp.wait
  // CHECK-NEXT:    aten.linalg_vector_norm
  // CHECK-NEXT:    fsdp.start all_reduce max "metrics"
  func.func @"infer/copied"(%a: tensor<2xf32> {fsdp.state = @a}, %b: tensor<2xbf16> {fsdp.state = @b})
      -> (tensor<4xf32> {fsdp.output = "a"}, tensor<4xbf16> {fsdp.output = "b"}, tensor<f32> {fsdp.output = "c"}, tensor<f32> {fsdp.output = "d"}, tensor<f32> {fsdp.output = "e"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %an = fsdp.amax %a : tensor<2xf32> -> tensor<f32>
    %bn = fsdp.amax %b : tensor<2xbf16> -> tensor<f32>
    %am = fsdp.all_reduce max %an over #shard for scale : tensor<f32>
    %bm = fsdp.all_reduce max %bn over #shard for scale : tensor<f32>
    %af = fsdp.all_gather %a dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %bf = fsdp.all_gather %b dim 0 over #shard : tensor<2xbf16> -> tensor<4xbf16>
    %n = aten.linalg_vector_norm(%af, ord = 0x7FF0000000000000 : f64) : (tensor<4xf32>) -> tensor<f32>
    %m = fsdp.all_reduce max %n over #shard for metric : tensor<f32>
    return %af, %bf, %am, %bm, %m : tensor<4xf32>, tensor<4xbf16>, tensor<f32>, tensor<f32>, tensor<f32>
  }
}
