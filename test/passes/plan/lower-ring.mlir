// RUN: fsdp-opt %s --fsdp-lower-ring -o - | FileCheck %s

// Keys and values travel before their heads are repeated for groups of queries; while they do, a rank computes with its own. What both give is weighed by the
// sums of their scores.

// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    %[[Q:[^:]+]]: tensor<1x4x6x8xf32>, %[[KEY:[^:]+]]: tensor<1x2x6x8xf32>, %[[VALUE:[^:]+]]: tensor<1x2x6x8xf32>
// CHECK:      %[[K:.+]] = aten.unsqueeze(%[[KEY]], dim = 2)
// CHECK:      %[[OWN:.+]] = aten.view({{.*}}, size = [1, 4, 6, 8])
// CHECK:      %[[V:.+]] = aten.unsqueeze(%[[VALUE]], dim = 2)
// CHECK:      %[[PASS:.+]] = fsdp.start rotate "cp"(%[[K]], %[[V]]) over #cp for step on replicate : tensor<1x2x1x6x8xf32>, tensor<1x2x1x6x8xf32>
// CHECK-NEXT: %[[FIRST:.+]]:2 = aten._scaled_dot_product_flash_attention_for_cpu(%[[Q]], %[[OWN]], %{{.+}}) :
// CHECK-NEXT: %[[CAME:.+]], %{{.+}} = fsdp.wait %[[PASS]]
// CHECK-NEXT: aten.expand(%[[CAME]], size = [1, 2, 2, 6, 8])
// CHECK:      %[[SECOND:.+]]:2 = aten._scaled_dot_product_flash_attention_for_cpu(%[[Q]], %{{.+}}, %{{.+}}) :
// CHECK-NEXT: %[[ALL:.+]] = aten.logaddexp(%[[FIRST]]#1, %[[SECOND]]#1)
// CHECK-NOT:  fsdp.ring

// Their gradients travel behind them, added up over a group, and come home with a last step.

// CHECK:      %[[AGAIN:.+]] = fsdp.start rotate "cp"(%[[K]], %[[V]])
// CHECK-NEXT: %[[G:.+]]:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(
// CHECK-NEXT: aten.view(%[[G]]#1, size = [1, 2, 2, 6, 8])
// CHECK-NEXT: %[[SUM:.+]] = aten.sum.dim_IntList({{.*}}, dim = [2]) {{.*}} -> tensor<1x2x6x8xf32>
// CHECK:      fsdp.wait %[[AGAIN]]
// CHECK:      %[[HOME:.+]] = fsdp.start rotate "cp"(%[[SUM]], %{{.+}}) over #cp for step
// CHECK:      aten._scaled_dot_product_flash_attention_for_cpu_backward(
// CHECK:      %[[BEFORE:.+]], %{{.+}} = fsdp.wait %[[HOME]]
// CHECK-NEXT: %[[BOTH:.+]] = aten.add.Tensor(%[[BEFORE]], %{{.+}})
// CHECK:      %[[LAST:.+]] = fsdp.start rotate "cp"(%[[BOTH]], %{{.+}}) over #cp for step
// CHECK-NEXT: %[[KEYS:.+]], %[[VALUES:.+]] = fsdp.wait %[[LAST]]
// CHECK:      return %{{.+}}, %{{.+}}, %[[KEYS]], %[[VALUES]]
#cp = #fsdp.group<"cp", 2>
#part = #fsdp.placed<shard dim 2 over #cp>
module {
  func.func @"train/step"(%q: tensor<1x4x6x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x8xf32>, %g: tensor<1x4x6x8xf32>)
      -> (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) {
    %k1 = aten.unsqueeze(%k, dim = 2) : (tensor<1x2x6x8xf32>) -> tensor<1x2x1x6x8xf32>
    %k2 = aten.expand(%k1, size = [1, 2, 2, 6, 8]) : (tensor<1x2x1x6x8xf32>) -> tensor<1x2x2x6x8xf32, #aten.strides<96, 48, 0, 8, 1>>
    %k3 = aten.clone(%k2, memory_format = "contiguous") : (tensor<1x2x2x6x8xf32, #aten.strides<96, 48, 0, 8, 1>>) -> tensor<1x2x2x6x8xf32>
    %k4 = aten.view(%k3, size = [1, 4, 6, 8]) : (tensor<1x2x2x6x8xf32>) -> tensor<1x4x6x8xf32>
    %v1 = aten.unsqueeze(%v, dim = 2) : (tensor<1x2x6x8xf32>) -> tensor<1x2x1x6x8xf32>
    %v2 = aten.expand(%v1, size = [1, 2, 2, 6, 8]) : (tensor<1x2x1x6x8xf32>) -> tensor<1x2x2x6x8xf32, #aten.strides<96, 48, 0, 8, 1>>
    %v3 = aten.clone(%v2, memory_format = "contiguous") : (tensor<1x2x2x6x8xf32, #aten.strides<96, 48, 0, 8, 1>>) -> tensor<1x2x2x6x8xf32>
    %v4 = aten.view(%v3, size = [1, 4, 6, 8]) : (tensor<1x2x2x6x8xf32>) -> tensor<1x4x6x8xf32>
    %o:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k4, %v4) {fsdp.ring = #part} : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>) -> (tensor<1x4x6x8xf32>, tensor<1x4x6xf32>)
    %d:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%g, %q, %k4, %v4, %o#0, %o#1, dropout_p = 0.0, is_causal = false) {fsdp.ring = #part}
        : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6xf32>) -> (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>)
    %dk1 = aten.view(%d#1, size = [1, 2, 2, 6, 8]) : (tensor<1x4x6x8xf32>) -> tensor<1x2x2x6x8xf32>
    %dk = aten.sum.dim_IntList(%dk1, dim = [2]) : (tensor<1x2x2x6x8xf32>) -> tensor<1x2x6x8xf32>
    %dv1 = aten.view(%d#2, size = [1, 2, 2, 6, 8]) : (tensor<1x4x6x8xf32>) -> tensor<1x2x2x6x8xf32>
    %dv = aten.sum.dim_IntList(%dv1, dim = [2]) : (tensor<1x2x2x6x8xf32>) -> tensor<1x2x6x8xf32>
    return %o#0, %d#0, %dk, %dv : tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>
  }
}
