// RUN: fsdp-opt %s --fsdp-lower-wires=everywhere -o - | FileCheck %s
// RUN: fsdp-opt %s --fsdp-lower-wires -o - | FileCheck %s --check-prefix=HOST --implicit-check-not=all_to_all
// RUN: sed 's/{fsdp.device = "cpu"}/{fsdp.device = "cuda:sm_90"}/' %s | fsdp-opt - --fsdp-lower-wires -o - | FileCheck %s

// Rows are padded to equal parts; what is summed divides as the reduction would have, a mean by the number of ranks. What is as wide as what travels, and sums over
// replicas, stay as they are.

// CHECK-LABEL: @"train/step"
// CHECK:       %[[E:.+]] = fsdp.start all_to_all "a"(%{{.+}}, %{{.+}}) dims [0, 0] over #shard for gradient on reduce of [@w, @v] : tensor<13x2xbf16>, tensor<8xbf16> -> !fsdp.future<tensor<16x2xbf16>, tensor<8xbf16>>
// CHECK-NEXT:  %[[P:.+]], %[[Q:.+]] = fsdp.wait %[[E]]
// CHECK-NEXT:  %[[S:.+]] = fsdp.sum_parts %[[P]] post 4.000000e+00 : tensor<16x2xbf16> -> tensor<4x2xf32>
// CHECK-NEXT:  %[[T:.+]] = fsdp.sum_parts %[[Q]] post 4.000000e+00 : tensor<8xbf16> -> tensor<2xf32>
// CHECK:       fsdp.start all_reduce avg "a"(%[[S]]) over #replicate
// CHECK:       %[[F:.+]] = fsdp.start all_to_all "f"(%{{.+}}) dims [0] over #shard for gradient on reduce : tensor<4x6xf8E4M3FN> -> !fsdp.future<tensor<4x6xf8E4M3FN>>
// CHECK-NEXT:  %[[R:.+]] = fsdp.wait %[[F]]
// CHECK-NEXT:  fsdp.sum_parts %[[R]] pre 2.000000e+00 post 3.000000e+00 : tensor<4x6xf8E4M3FN> -> tensor<1x6xf32>
// CHECK:       fsdp.start reduce_scatter avg "n"(%{{.+}}) dims [0] over #shard on reduce : tensor<8xbf16> -> !fsdp.future<tensor<2xbf16>>
// CHECK-NOT:   all_to_all

// HOST:        fsdp.start reduce_scatter avg "a"
// HOST:        fsdp.start reduce_scatter sum "f"
#shard = #fsdp.group<"shard", 4>
#replicate = #fsdp.group<"replicate", 2 : 4>
module attributes {fsdp.device = "cpu"} {
  fsdp.state parameter @w : tensor<13x2xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @v : tensor<8xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<13x2xbf16>, %v: tensor<8xbf16>, %f: tensor<4x6xf8E4M3FN>) {
    %a = fsdp.start reduce_scatter avg "a"(%w, %v) dims [0, 0] over #shard on reduce of [@w, @v] : tensor<13x2xbf16>, tensor<8xbf16> -> !fsdp.future<tensor<4x2xf32>, tensor<2xf32>>
    %s, %t = fsdp.wait %a : !fsdp.future<tensor<4x2xf32>, tensor<2xf32>> -> tensor<4x2xf32>, tensor<2xf32>
    %b = fsdp.start all_reduce avg "a"(%s) over #replicate on replicate of [@w] : tensor<4x2xf32> -> !fsdp.future<tensor<4x2xf32>>
    %u = fsdp.wait %b : !fsdp.future<tensor<4x2xf32>> -> tensor<4x2xf32>
    %c = fsdp.start reduce_scatter sum "f"(%f) pre 2.0 post 3.0 dims [0] over #shard on reduce : tensor<4x6xf8E4M3FN> -> !fsdp.future<tensor<1x6xf32>>
    %x = fsdp.wait %c : !fsdp.future<tensor<1x6xf32>> -> tensor<1x6xf32>
    %d = fsdp.start reduce_scatter avg "n"(%v) dims [0] over #shard on reduce : tensor<8xbf16> -> !fsdp.future<tensor<2xbf16>>
    %y = fsdp.wait %d : !fsdp.future<tensor<2xbf16>> -> tensor<2xbf16>
    return
  }
}
