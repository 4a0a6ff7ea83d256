// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 4>, parallel<tp = 2>, buckets<reshard = all>}' --fsdp-assign-buckets --fsdp-shard-parameters --fsdp-move-casts-to-shards --fsdp-divide-gradients --fsdp-recompute --fsdp-reshard-after-forward --fsdp-flatten-buckets --fsdp-insert-metrics --fsdp-split-micro-batches --fsdp-keep-gathered --fsdp-insert-optimizer --fsdp-verify-sharded | FileCheck %s --check-prefix=AGAIN
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 4>, parallel<tp = 2>, buckets<reshard = none>, step<micro_batches = 2, keep_gathered = true>}' --fsdp-assign-buckets --fsdp-shard-parameters --fsdp-move-casts-to-shards --fsdp-divide-gradients --fsdp-recompute --fsdp-reshard-after-forward --fsdp-flatten-buckets --fsdp-insert-metrics --fsdp-split-micro-batches --fsdp-keep-gathered --fsdp-insert-optimizer --fsdp-verify-sharded | FileCheck %s --check-prefix=KEPT
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 4>, parallel<tp = 2>, buckets<layout = flat>}' --fsdp-assign-buckets --fsdp-shard-parameters --fsdp-move-casts-to-shards --fsdp-divide-gradients --fsdp-recompute --fsdp-reshard-after-forward --fsdp-flatten-buckets --fsdp-insert-metrics --fsdp-split-micro-batches --fsdp-keep-gathered --fsdp-insert-optimizer --fsdp-verify-sharded | FileCheck %s --check-prefix=FLAT

// What ranks exchange along 'tp' is part of the step: it is no parameter that is
// gathered again, kept or cast in parts, no metric that is summed in front of its
// exchange, and what is split is kept apart in norms.

// AGAIN-LABEL:  func.func @"train/step"
// AGAIN:        %[[H:.+]] = aten.mm(
// AGAIN:        fsdp.all_reduce sum %{{.+}} over #tp for step : tensor<2x4xf32>
// AGAIN:        %[[NORM:.+]] = fsdp.all_gather %{{.+}} over #shard : tensor<2xf32> -> tensor<4xf32>
// AGAIN-NEXT:   fsdp.shard %[[NORM]] dim 0 over #tp for step
// AGAIN:        %[[LOSS:.+]] = fsdp.all_reduce sum %{{.+}} over #tp for step : tensor<f32>
// AGAIN-NEXT:   %[[A:.+]] = fsdp.all_gather %[[H]] dim 1 over #tp for step : tensor<2x4xf32> -> tensor<2x8xf32>
// AGAIN-NEXT:   aten._to_copy(%[[A]], dtype = bf16)
// AGAIN-COUNT-2: fsdp.replay
// AGAIN-NOT:    fsdp.replay
// AGAIN:        fsdp.all_reduce avg %[[LOSS]] over #world for metric
// AGAIN:        aten.mul.Scalar(%{{.+}}, other = 4.000000e+00)

// KEPT:         fsdp.state gradient @"up/gradient" of @up : tensor<4x4xf32> split <dim 1 over #tp> sharded
// KEPT:         fsdp.state gathered @"norm/gathered"
// KEPT-NOT:     fsdp.state gathered
// KEPT-LABEL:   func.func @"train/first"
// KEPT:         %[[LOSS:.+]] = fsdp.all_reduce sum %{{.+}} over #tp for step : tensor<f32>
// KEPT:         return %[[LOSS]],
// KEPT-LABEL:   func.func @"train/last"
// KEPT-NOT:     over #shard : {{.+}} ->
// KEPT:         %[[SUM:.+]] = fsdp.all_reduce sum %{{.+}} over #tp for step : tensor<f32>
// KEPT-NEXT:    fsdp.accumulate %[[SUM]] into %{{.+}} divide 2
// KEPT-NEXT:    fsdp.all_gather %{{.+}} dim 1 over #tp for step

// FLAT:         fsdp.state parameter @"root/flat" : tensor<32xf32>
// FLAT:         fsdp.state parameter @up : tensor<4x4xf32> split <dim 1 over #tp> part
// FLAT:         fsdp.state parameter @"root/flat/1"
// FLAT:         fsdp.state parameter @norm : tensor<4xf32> part
// FLAT:         %[[S:.+]] = aten.sum(%{{.+}}) : (tensor<1xf32>) -> tensor<f32>
// FLAT-NEXT:    aten._foreach_norm.Scalar
// FLAT:         %[[N:.+]] = aten.sum(%{{.+}}) : (tensor<1xf32>) -> tensor<f32>
// FLAT-NEXT:    %[[HALF:.+]] = aten.div.Scalar(%[[N]], other = 2.000000e+00)
// FLAT-NEXT:    aten.add.Tensor(%[[S]], %[[HALF]])
#tp = #fsdp.group<"tp", 2>
module {
  fsdp.state parameter @up : tensor<4x4xf32> split <dim 1 over #tp>
  fsdp.state parameter @down : tensor<4x4xf32> split <dim 0 over #tp>
  fsdp.state parameter @norm : tensor<4xf32>
  func.func @"train/step"(%up: tensor<4x4xf32> {fsdp.state = @up}, %down: tensor<4x4xf32> {fsdp.state = @down}, %norm: tensor<4xf32> {fsdp.state = @norm}, %x: tensor<2x4xf32> {fsdp.input = "x"}, %g: tensor<4x2xf32> {fsdp.input = "g"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "accuracy"}, tensor<4x4xf32> {fsdp.gradient = @up}, tensor<4x4xf32> {fsdp.gradient = @down}, tensor<4xf32> {fsdp.gradient = @norm}) attributes {fsdp.captured} {
    %h = aten.mm(%x, %up) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %p = aten.mm(%h, %down) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = fsdp.all_reduce sum %p over #tp for step : tensor<2x4xf32>
    %c = fsdp.shard %norm dim 0 over #tp for step : tensor<4xf32> -> tensor<2xf32>
    %i = aten.sum(%c) : (tensor<2xf32>) -> tensor<f32>
    %j = aten.sum(%y) : (tensor<2x4xf32>) -> tensor<f32>
    %k = aten.add.Tensor(%i, %j) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %l = fsdp.all_reduce sum %k over #tp for step : tensor<f32>
    %a = fsdp.all_gather %h dim 1 over #tp for step : tensor<2x4xf32> -> tensor<2x8xf32>
    %b = aten._to_copy(%a, dtype = bf16) : (tensor<2x8xf32>) -> tensor<2x8xbf16>
    %m = aten.sum(%b) : (tensor<2x8xbf16>) -> tensor<bf16>
    %n = aten._to_copy(%m, dtype = f32) : (tensor<bf16>) -> tensor<f32>
    %q = aten.mm(%y, %down) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %gup = aten.mm(%g, %q) : (tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %gdown = aten.mm(%g, %y) : (tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %gn = aten.neg(%norm) : (tensor<4xf32>) -> tensor<4xf32>
    return %l, %n, %gup, %gdown, %gn : tensor<f32>, tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>
  }
}
