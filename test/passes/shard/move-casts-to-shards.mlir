// RUN: fsdp-opt %s --fsdp-move-casts-to-shards --split-input-file | FileCheck %s

#shard = #fsdp.group<"shard", 2>

// CHECK-LABEL: @narrows
// CHECK-SAME:    (%[[W:.+]]: tensor<3x4xf32>
// CHECK-NEXT:    %[[C:.+]] = aten._to_copy(%[[W]], dtype = bf16) : (tensor<3x4xf32>) -> tensor<3x4xbf16>
// CHECK-NEXT:    %[[F:.+]] = fsdp.all_gather %[[C]] {{.*}} : tensor<3x4xbf16> -> tensor<5x4xbf16>
// CHECK-NEXT:    return %[[F]]
func.func @narrows(%w: tensor<3x4xf32>) -> tensor<5x4xbf16> {
  %f = fsdp.all_gather %w dim 0 over #shard : tensor<3x4xf32> -> tensor<5x4xf32>
  %c = aten._to_copy(%f, dtype = bf16) : (tensor<5x4xf32>) -> tensor<5x4xbf16>
  return %c : tensor<5x4xbf16>
}

// More bytes would travel.
// CHECK-LABEL: @widens
// CHECK-NEXT:    fsdp.all_gather
// CHECK-NEXT:    aten._to_copy
func.func @widens(%w: tensor<3x4xbf16>) -> tensor<5x4xf32> {
  %f = fsdp.all_gather %w dim 0 over #shard : tensor<3x4xbf16> -> tensor<5x4xbf16>
  %c = aten._to_copy(%f, dtype = f32) : (tensor<5x4xbf16>) -> tensor<5x4xf32>
  return %c : tensor<5x4xf32>
}

// The whole tensor is read as well.
// CHECK-LABEL: @read_twice
// CHECK-NEXT:    fsdp.all_gather
// CHECK-NEXT:    aten._to_copy
func.func @read_twice(%w: tensor<3x4xf32>) -> (tensor<5x4xbf16>, tensor<5x4xf32>) {
  %f = fsdp.all_gather %w dim 0 over #shard : tensor<3x4xf32> -> tensor<5x4xf32>
  %c = aten._to_copy(%f, dtype = bf16) : (tensor<5x4xf32>) -> tensor<5x4xbf16>
  return %c, %f : tensor<5x4xbf16>, tensor<5x4xf32>
}

// A layout cannot be given to rows alone.
// CHECK-LABEL: @changes_layout
// CHECK-NEXT:    fsdp.all_gather
// CHECK-NEXT:    aten._to_copy
func.func @changes_layout(%w: tensor<3x4x2x2xf32>) -> tensor<5x4x2x2xbf16, #aten.strides<16, 1, 8, 4>> {
  %f = fsdp.all_gather %w dim 0 over #shard : tensor<3x4x2x2xf32> -> tensor<5x4x2x2xf32>
  %c = aten._to_copy(%f, dtype = bf16, memory_format = "channels_last") : (tensor<5x4x2x2xf32>) -> tensor<5x4x2x2xbf16, #aten.strides<16, 1, 8, 4>>
  return %c : tensor<5x4x2x2xbf16, #aten.strides<16, 1, 8, 4>>
}

// -----

// The gradient is reduced in bf16 and gets its own type on the shard, behind all
// reductions.

#shard = #fsdp.group<"shard", 2>
#replicate = #fsdp.group<"replicate", 2 : 2>
fsdp.state parameter @w : tensor<5x4xf32> sharded <dim 0 over #shard> gradient <reduce bf16>

// CHECK-LABEL: @gradient
// CHECK-SAME:    %[[G:.+]]: tensor<5x4xbf16>
// CHECK-NEXT:    %[[S:.+]] = fsdp.reduce_scatter avg %[[G]] {{.*}} of @w : tensor<5x4xbf16> -> tensor<3x4xbf16>
// CHECK-NEXT:    %[[R:.+]] = fsdp.all_reduce avg %[[S]] {{.*}} of @w : tensor<3x4xbf16>
// CHECK-NEXT:    %[[C:.+]] = aten._to_copy(%[[R]], dtype = f32) : (tensor<3x4xbf16>) -> tensor<3x4xf32>
// CHECK-NEXT:    aten.neg
// CHECK-NEXT:    return %[[C]], %{{.+}} : tensor<3x4xf32>
func.func @gradient(%g: tensor<5x4xbf16>, %x: tensor<2xf32>) -> (tensor<3x4xf32>, tensor<2xf32>) {
  %c = aten._to_copy(%g, dtype = f32) : (tensor<5x4xbf16>) -> tensor<5x4xf32>
  %s = fsdp.reduce_scatter avg %c dim 0 over #shard of @w : tensor<5x4xf32> -> tensor<3x4xf32>
  %r = fsdp.all_reduce avg %s over #replicate of @w : tensor<3x4xf32>
  %n = aten.neg(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %r, %n : tensor<3x4xf32>, tensor<2xf32>
}

// -----

// The cast leads to the type that is to be reduced in.

#shard = #fsdp.group<"shard", 2>
fsdp.state parameter @w : tensor<5x4xf32> sharded <dim 0 over #shard>

// CHECK-LABEL: @reduced_in_full
// CHECK-NEXT:    aten._to_copy
// CHECK-NEXT:    fsdp.reduce_scatter avg {{.*}} tensor<5x4xf32> -> tensor<3x4xf32>
// CHECK-NEXT:    return
func.func @reduced_in_full(%g: tensor<5x4xbf16>) -> tensor<3x4xf32> {
  %c = aten._to_copy(%g, dtype = f32) : (tensor<5x4xbf16>) -> tensor<5x4xf32>
  %s = fsdp.reduce_scatter avg %c dim 0 over #shard of @w : tensor<5x4xf32> -> tensor<3x4xf32>
  return %s : tensor<3x4xf32>
}
