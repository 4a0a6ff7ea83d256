// RUN: fsdp-opt %s --fsdp-lower-shard-dims | FileCheck %s
// RUN: fsdp-opt %s --fsdp-lower-shard-dims --fsdp-materialize-storages | FileCheck %s --check-prefix=COPIES

// What is cut along dim 1 travels transposed, the bias beside it as it is. A
// gradient that is transposed already needs no copy on its way in.

// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    %[[W:[^:]+]]: tensor<4x3xf32> {fsdp.state = @w}, %[[B:[^:]+]]: tensor<2xf32>
// CHECK-NEXT:    %[[P:.+]] = aten.permute(%[[W]], dims = [1, 0]) : (tensor<4x3xf32>) -> tensor<3x4xf32, #aten.strides<1, 3>>
// CHECK-NEXT:    %[[F:.+]] = fsdp.start all_gather "a"(%[[P]], %[[B]]) dims [0, 0] {{.*}} -> !fsdp.future<tensor<6x4xf32>, tensor<4xf32>>
// CHECK-NEXT:    %[[G_0:[^ ,]+]], %[[G_1:[^ ,]+]] = fsdp.wait %[[F]]
// CHECK-NEXT:    %[[V:.+]] = aten.permute(%[[G_0]], dims = [1, 0]) : (tensor<6x4xf32>) -> tensor<4x6xf32, #aten.strides<1, 4>>
// CHECK-NEXT:    %[[C:.+]] = aten.clone(%[[V]], memory_format = "contiguous") : {{.*}} -> tensor<4x6xf32>
// CHECK-NEXT:    %[[M:.+]] = aten.mm(%{{.+}}, %[[C]])
// CHECK-NEXT:    fsdp.free %[[C]], %[[G_1]]
// CHECK-NEXT:    %[[T:.+]] = aten.t(%[[M]])
// CHECK-NEXT:    %[[GP:.+]] = aten.permute(%[[T]], dims = [1, 0]) : (tensor<4x6xf32, #aten.strides<1, 4>>) -> tensor<6x4xf32>
// CHECK-NEXT:    %[[R:.+]] = fsdp.start reduce_scatter avg "a"(%[[GP]]) dims [0] {{.*}} of [@w] : tensor<6x4xf32> -> !fsdp.future<tensor<3x4xf32>>
// CHECK-NEXT:    %[[S:.+]] = fsdp.wait %[[R]]
// CHECK-NEXT:    %[[SV:.+]] = aten.permute(%[[S]], dims = [1, 0])
// CHECK-NEXT:    %[[SC:.+]] = aten.clone(%[[SV]]
// CHECK-NEXT:    return %[[SC]]

// COPIES:        %[[P:.+]] = aten.permute
// COPIES-NEXT:   %[[PC:.+]] = aten.clone(%[[P]]
// COPIES-NEXT:   fsdp.start all_gather "a"(%[[PC]],
// COPIES:        %[[GP:.+]] = aten.permute(%{{.+}}, dims = [1, 0]) : (tensor<4x6xf32, #aten.strides<1, 4>>) -> tensor<6x4xf32>
// COPIES-NEXT:   fsdp.start reduce_scatter avg "a"(%[[GP]])
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4x6xf32> sharded <dim 1 over #shard> bucket "a"
  fsdp.state frozen @b : tensor<4xf32> sharded <dim 0 over #shard> bucket "a"
  func.func @"train/step"(%w: tensor<4x3xf32> {fsdp.state = @w}, %b: tensor<2xf32> {fsdp.state = @b}, %x: tensor<6x4xf32> {fsdp.input = "x"})
      -> (tensor<4x3xf32> {fsdp.gradient = @w}) {
    %0 = fsdp.start all_gather "a"(%w, %b) dims [1, 0] over #shard on gather : tensor<4x3xf32>, tensor<2xf32> -> !fsdp.future<tensor<4x6xf32>, tensor<4xf32>>
    %f:2 = fsdp.wait %0 : !fsdp.future<tensor<4x6xf32>, tensor<4xf32>> -> tensor<4x6xf32>, tensor<4xf32>
    %m = aten.mm(%x, %f#0) : (tensor<6x4xf32>, tensor<4x6xf32>) -> tensor<6x4xf32>
    fsdp.free %f#0, %f#1 : tensor<4x6xf32>, tensor<4xf32>
    %t = aten.t(%m) : (tensor<6x4xf32>) -> tensor<4x6xf32, #aten.strides<1, 4>>
    %1 = fsdp.start reduce_scatter avg "a"(%t) dims [1] over #shard on reduce of [@w] : tensor<4x6xf32, #aten.strides<1, 4>> -> !fsdp.future<tensor<4x3xf32>>
    %s = fsdp.wait %1 : !fsdp.future<tensor<4x3xf32>> -> tensor<4x3xf32>
    return %s : tensor<4x3xf32>
  }
}
