// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<reshard = all, reshard_ranks = 2>}' --fsdp-reshard-after-forward | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["a"], reshard = 2>, #fsdp.rule<buckets = ["roo?"], reshard = 0>]>}' --fsdp-reshard-after-forward | FileCheck %s --check-prefixes=CHECK,RULES
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<reshard = all, rules = [#fsdp.rule<buckets = ["*"], reshard = 2>, #fsdp.rule<buckets = ["a"], reshard = 1>]>}' --fsdp-reshard-after-forward | FileCheck %s --check-prefixes=CHECK,KEEP
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<reshard = all, reshard_ranks = 4>}' --fsdp-reshard-after-forward | FileCheck %s --check-prefixes=CHECK,FOUR
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<reshard = all, reshard_ranks = 3>}' --fsdp-reshard-after-forward 2>&1 | FileCheck %s --check-prefix=DIVIDE
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["b"], reshard = 0>]>}' --fsdp-reshard-after-forward 2>&1 | FileCheck %s --check-prefix=UNMATCHED
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["a"], reshard = often>]>}' --fsdp-reshard-after-forward 2>&1 | FileCheck %s --check-prefix=VALUE

// DIVIDE:    expected to shard over a number of ranks that divides the 4 of the shard group between forward and backward, found 3
// UNMATCHED: expected buckets whose names match 'b', found none
// VALUE:     failed to parse Fsdp_Buckets parameter 'rules'

// 13 rows: 4 a rank, of which the last rank has one; 7 a rank over two of them.
// The part is cut off behind the last read in forward, not at the gather.

// TWO-DAG:     #[[INNER:.+]] = #fsdp.group<"inner_2", 2>
// TWO-DAG:     #[[SHARD:.+]] = #fsdp.group<"shard", 4>
// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    %[[W:[^:]+]]: tensor<4x4xf32> {fsdp.state = @w}, %[[R:[^:]+]]: tensor<4x4xf32> {fsdp.state = @r}
// TWO:         %[[F:.+]] = fsdp.all_gather %[[W]] dim 0 over #[[SHARD]]
// TWO:         %[[T:.+]] = aten.t(%[[F]])
// TWO-NEXT:    %[[M:.+]] = aten.mm({{.+}}, %[[T]])
// TWO-NEXT:    %[[S:.+]] = fsdp.shard %[[F]] dim 0 over #[[INNER]] : tensor<13x4xf32> -> tensor<7x4xf32>
// TWO-NEXT:    aten.mul.Tensor
// TWO-NEXT:    %[[RS:.+]] = fsdp.shard %{{.+}} dim 0 over #[[INNER]]
// TWO:         %[[RR:.+]] = fsdp.replay %[[RS]]
// TWO-NEXT:    fsdp.all_gather %[[RR]] dim 0 over #[[INNER]]
// TWO:         %[[WR:.+]] = fsdp.replay %[[S]]
// TWO-NEXT:    %[[WA:.+]] = fsdp.all_gather %[[WR]] dim 0 over #[[INNER]] : tensor<7x4xf32> -> tensor<13x4xf32>
// TWO:         aten.mm({{.+}}, %[[WA]])

// RULES:       fsdp.shard
// RULES-NOT:   fsdp.shard
// RULES:       fsdp.replay %[[R]] :

// KEEP:        %[[KF:.+]] = fsdp.all_gather %[[W]]
// KEEP:        fsdp.shard
// KEEP-NOT:    fsdp.shard
// KEEP:        aten.mm({{.+}}, %[[KF]])

// FOUR-NOT:    fsdp.shard
// FOUR:        fsdp.replay %[[R]] :
// FOUR:        fsdp.replay %[[W]] :
// CHECK:       return

#shard = #fsdp.group<"shard", 4>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 4>} {
  fsdp.state parameter @w : tensor<13x4xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state frozen @r : tensor<13x4xf32> sharded <dim 0 over #shard> bucket "root"
  func.func @"train/step"(%w: tensor<4x4xf32> {fsdp.state = @w}, %r: tensor<4x4xf32> {fsdp.state = @r}, %x: tensor<13x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4x4xf32> {fsdp.gradient = @w}) {
    %wf = fsdp.all_gather %w dim 0 over #shard : tensor<4x4xf32> -> tensor<13x4xf32>
    %rf = fsdp.all_gather %r dim 0 over #shard : tensor<4x4xf32> -> tensor<13x4xf32>
    %t = aten.t(%wf) : (tensor<13x4xf32>) -> tensor<4x13xf32, #aten.strides<1, 4>>
    %m = aten.mm(%x, %t) : (tensor<13x4xf32>, tensor<4x13xf32, #aten.strides<1, 4>>) -> tensor<13x13xf32>
    %n = aten.mul.Tensor(%x, %rf) : (tensor<13x4xf32>, tensor<13x4xf32>) -> tensor<13x4xf32>
    %k = aten.mm(%m, %n) : (tensor<13x13xf32>, tensor<13x4xf32>) -> tensor<13x4xf32>
    %l = aten.sum(%k) : (tensor<13x4xf32>) -> tensor<f32>
    %1 = aten.mul.Tensor(%x, %rf) : (tensor<13x4xf32>, tensor<13x4xf32>) -> tensor<13x4xf32>
    %2 = aten.mm(%m, %wf) : (tensor<13x13xf32>, tensor<13x4xf32>) -> tensor<13x4xf32>
    %3 = aten.mul.Tensor(%1, %2) : (tensor<13x4xf32>, tensor<13x4xf32>) -> tensor<13x4xf32>
    %s = fsdp.reduce_scatter avg %3 dim 0 over #shard of @w : tensor<13x4xf32> -> tensor<4x4xf32>
    return %l, %s : tensor<f32>, tensor<4x4xf32>
  }
}
