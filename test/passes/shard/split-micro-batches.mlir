// RUN: fsdp-opt %s --fsdp-annotate='with={step<micro_batches = 3>}' --fsdp-split-micro-batches --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={step<micro_batches = 2, sync = last>}' --fsdp-split-micro-batches --split-input-file | FileCheck %s --check-prefix=LAST
// RUN: fsdp-opt %s --fsdp-annotate='with={step<micro_batches = 2, sync = all_reduce_last>}' --fsdp-split-micro-batches --split-input-file | FileCheck %s --check-prefix=HSDP
// RUN: fsdp-opt %s --split-input-file > %t.same
// RUN: fsdp-opt %s --fsdp-split-micro-batches --split-input-file | diff - %t.same

// The first program leaves its gradients, the middle one adds to them, the last
// makes the mean. Running numbers are those of one rank: only the last exchanges.
// The new value of a buffer and what is drawn next stay in all of them.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // CHECK-LABEL: module attributes {fsdp.mesh = #{{.*}}, fsdp.micro_batches = 3 : i64
  // CHECK: fsdp.state parameter @w
  // CHECK: fsdp.state buffer @b
  // CHECK: fsdp.state scalar @"loss/sum" : tensor<f32>
  // CHECK: fsdp.state gradient @"w/gradient" of @w : tensor<5xbf16> sharded <dim 0 over #{{.*}}>
  // CHECK: fsdp.state scalar @"accuracy/sum" : tensor<f32>
  // LAST-LABEL: fsdp.micro_batches = 2 : i64
  // LAST: fsdp.state gradient @"w/gradient" of @w : tensor<5xbf16>{{$}}
  // HSDP: fsdp.state gradient @"w/gradient" of @w : tensor<5xbf16> sharded
  fsdp.state parameter @w : tensor<5xbf16> sharded <dim 0 over #shard>
  fsdp.state buffer @b : tensor<f32>

  // CHECK-LABEL: func.func @"train/first"
  // CHECK-SAME: %[[LS:[a-z0-9]+]]: tensor<f32> {fsdp.state = @"loss/sum"}, %[[GS:[a-z0-9]+]]: tensor<3xbf16> {fsdp.state = @"w/gradient"}, %[[AS:[a-z0-9]+]]: tensor<f32> {fsdp.state = @"accuracy/sum"}
  // CHECK-SAME: %{{.+}}: tensor<5xbf16> {fsdp.input = "x"}
  // CHECK-SAME: -> (tensor<f32> {fsdp.output = "loss", fsdp.state = @"loss/sum"}, tensor<f32> {fsdp.state = @b}, tensor<3xbf16> {fsdp.state = @"w/gradient"}, tensor<f32> {fsdp.metric = "accuracy", fsdp.state = @"accuracy/sum"})
  // CHECK:      %[[L:.+]] = aten.sum
  // CHECK-NEXT: %[[L32:.+]] = aten._to_copy(%[[L]], dtype = f32)
  // CHECK:      %[[S:.+]] = fsdp.reduce_scatter avg
  // CHECK-NOT:  accumulate
  // CHECK-NOT:  all_reduce
  // CHECK:      return %[[L32]], %{{.+}}, %[[S]], %[[A:.+]] :

  // CHECK-LABEL: func.func @"train/middle"
  // CHECK-SAME: %[[LS:[a-z0-9]+]]: tensor<f32> {fsdp.state = @"loss/sum"}, %[[GS:[a-z0-9]+]]: tensor<3xbf16> {fsdp.state = @"w/gradient"}, %[[AS:[a-z0-9]+]]: tensor<f32> {fsdp.state = @"accuracy/sum"}
  // CHECK:      %[[L32:.+]] = aten._to_copy
  // CHECK-NEXT: %[[LN:.+]] = fsdp.accumulate %[[L32]] into %[[LS]] : tensor<f32>, tensor<f32>
  // CHECK:      %[[AN:.+]] = fsdp.accumulate %{{.+}} into %[[AS]] : tensor<f32>, tensor<f32>
  // CHECK:      %[[S:.+]] = fsdp.reduce_scatter avg
  // CHECK-NOT:  all_reduce
  // CHECK:      %[[GN:.+]] = fsdp.accumulate %[[S]] into %[[GS]] of @w : tensor<3xbf16>, tensor<3xbf16>
  // CHECK-NEXT: return %[[LN]], %{{.+}}, %[[GN]], %[[AN]] :

  // CHECK-LABEL: func.func @"train/last"
  // CHECK-SAME: -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.state = @b}, tensor<3xbf16> {fsdp.gradient = @w}, tensor<f32> {fsdp.metric = "accuracy"})
  // CHECK:      %[[LN:.+]] = fsdp.accumulate %{{.+}} into %{{.+}} divide 3 : tensor<f32>, tensor<f32>
  // CHECK:      %[[AN:.+]] = fsdp.accumulate %{{.+}} into %{{.+}} divide 3 : tensor<f32>, tensor<f32>
  // CHECK:      %[[S:.+]] = fsdp.reduce_scatter avg
  // CHECK:      %[[M:.+]] = fsdp.all_reduce avg %[[AN]]
  // CHECK:      %[[GN:.+]] = fsdp.accumulate %[[S]] into %{{.+}} of @w divide 3 : tensor<3xbf16>, tensor<3xbf16>
  // CHECK-NEXT: return %[[LN]], %{{.+}}, %[[GN]], %[[M]] :
  // CHECK-NOT:  func.func @"train/step"

  // Whole gradients are summed, and reduced once.
  // LAST-LABEL: func.func @"train/first"
  // LAST-SAME:  tensor<5xbf16> {fsdp.state = @"w/gradient"}
  // LAST:       %[[G:.+]] = aten.neg(%{{.+}}) : (tensor<5xbf16>)
  // LAST-NOT:   reduce_scatter
  // LAST:       return %{{.+}}, %{{.+}}, %[[G]], %{{.+}} :
  // LAST-NOT:   train/middle
  // LAST-LABEL: func.func @"train/last"
  // LAST:       %[[G:.+]] = aten.neg(%{{.+}}) : (tensor<5xbf16>)
  // LAST-NEXT:  %[[M:.+]] = fsdp.accumulate %[[G]] into %{{.+}} of @w divide 2 : tensor<5xbf16>, tensor<5xbf16>
  // LAST-NEXT:  %[[S:.+]] = fsdp.reduce_scatter avg %[[M]] dim 0
  // LAST:       return %{{.+}}, %{{.+}}, %[[S]], %{{.+}} :
  func.func @"train/step"(%w: tensor<3xbf16> {fsdp.state = @w}, %b: tensor<f32> {fsdp.state = @b}, %x: tensor<5xbf16> {fsdp.input = "x"})
      -> (tensor<bf16> {fsdp.output = "loss"}, tensor<f32> {fsdp.state = @b}, tensor<3xbf16> {fsdp.gradient = @w}, tensor<f32> {fsdp.metric = "accuracy"}) {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<3xbf16> -> tensor<5xbf16>
    %p = aten.mul.Tensor(%f, %x) : (tensor<5xbf16>, tensor<5xbf16>) -> tensor<5xbf16>
    %l = aten.sum(%p) : (tensor<5xbf16>) -> tensor<bf16>
    %a = aten.neg(%b) : (tensor<f32>) -> tensor<f32>
    %g = aten.neg(%x) : (tensor<5xbf16>) -> tensor<5xbf16>
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<5xbf16> -> tensor<3xbf16>
    %m = fsdp.all_reduce avg %a over #shard for metric : tensor<f32>
    return %l, %a, %s, %m : tensor<bf16>, tensor<f32>, tensor<3xbf16>, tensor<f32>
  }
}

// -----

// Replicas: the sum lies in front of the first reduction that waits, casts behind
// it wait, too.

#shard = #fsdp.group<"shard", 2>
#replicate = #fsdp.group<"replicate", 2 : 2>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 2>} {
  // HSDP-LABEL: #mesh = #fsdp.mesh<replicate
  // HSDP: fsdp.state gradient @"w/gradient" of @w : tensor<5xbf16> sharded <dim 0 over #
  // HSDP: fsdp.state gradient @"v/gradient" of @v : tensor<5xbf16>{{$}}
  // CHECK-LABEL: module attributes
  // CHECK: fsdp.state gradient @"w/gradient" of @w : tensor<5xf32> sharded
  // CHECK: fsdp.state gradient @"v/gradient" of @v : tensor<5xbf16>{{$}}
  // LAST: fsdp.state gradient @"w/gradient" of @w : tensor<5xbf16>{{$}}
  fsdp.state parameter @w : tensor<5xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @v : tensor<5xbf16>
  // HSDP-LABEL: func.func @"train/first"
  // HSDP:      %[[S:.+]] = fsdp.reduce_scatter
  // HSDP-NOT:  all_reduce
  // HSDP:      return %{{.+}}, %[[S]], %{{.+}} : tensor<f32>, tensor<3xbf16>, tensor<5xbf16>
  // HSDP-LABEL: func.func @"train/last"
  // HSDP:      %[[S:.+]] = fsdp.reduce_scatter
  // HSDP-NEXT: %[[M:.+]] = fsdp.accumulate %[[S]] into %{{.+}} of @w divide 2
  // HSDP-NEXT: %[[R:.+]] = fsdp.all_reduce avg %[[M]] over #{{.+}} of @w
  // HSDP-NEXT: %[[C:.+]] = aten._to_copy(%[[R]], dtype = f32)
  // HSDP:      %[[N:.+]] = fsdp.accumulate %{{.+}} into %{{.+}} of @v divide 2
  // HSDP:      %[[V:.+]] = fsdp.all_reduce avg %{{.+}} of @v
  // HSDP-NEXT: return %{{.+}}, %[[C]], %[[V]]
  func.func @"train/step"(%w: tensor<3xf32> {fsdp.state = @w}, %v: tensor<5xbf16> {fsdp.state = @v}, %g: tensor<5xbf16> {fsdp.input = "g"}, %x: tensor<f32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<3xf32> {fsdp.gradient = @w}, tensor<5xbf16> {fsdp.gradient = @v}) {
    %l = aten.neg(%x) : (tensor<f32>) -> tensor<f32>
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<5xbf16> -> tensor<3xbf16>
    %r = fsdp.all_reduce avg %s over #replicate of @w : tensor<3xbf16>
    %c = aten._to_copy(%r, dtype = f32) : (tensor<3xbf16>) -> tensor<3xf32>
    %h = aten.neg(%g) : (tensor<5xbf16>) -> tensor<5xbf16>
    %n = fsdp.all_reduce avg %h over #shard of @v : tensor<5xbf16>
    return %l, %c, %n : tensor<f32>, tensor<3xf32>, tensor<5xbf16>
  }
}

// -----

// Programs at several shapes share the sums; inference has no step to split.

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  // CHECK-LABEL: module attributes
  // CHECK-COUNT-1: fsdp.state gradient
  // CHECK: func.func @"train/first[x.0=2]"
  // CHECK: func.func @"train/middle[x.0=2]"
  // CHECK: func.func @"train/last[x.0=2]"
  // CHECK: func.func @"train/first[x.0=4]"
  // CHECK: func.func @"train/middle[x.0=4]"
  // CHECK: func.func @"train/last[x.0=4]"
  // CHECK: func.func @"infer/step"
  // CHECK-NOT: accumulate
  // CHECK: return
  fsdp.state parameter @w : tensor<1xf32>
  func.func @"train/step[x.0=2]"(%w: tensor<1xf32> {fsdp.state = @w}, %x: tensor<2xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<1xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<shapes = "x.0=2">} {
    %l = aten.sum(%x) : (tensor<2xf32>) -> tensor<f32>
    %g = aten.neg(%w) : (tensor<1xf32>) -> tensor<1xf32>
    return %l, %g : tensor<f32>, tensor<1xf32>
  }
  func.func @"train/step[x.0=4]"(%w: tensor<1xf32> {fsdp.state = @w}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<1xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<shapes = "x.0=4">} {
    %l = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
    %g = aten.neg(%w) : (tensor<1xf32>) -> tensor<1xf32>
    return %l, %g : tensor<f32>, tensor<1xf32>
  }
  func.func @"infer/step"(%w: tensor<1xf32> {fsdp.state = @w}) -> (tensor<1xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    return %w : tensor<1xf32>
  }
}
