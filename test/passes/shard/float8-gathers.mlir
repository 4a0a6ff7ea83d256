// RUN: fsdp-opt %s --fsdp-float8-gathers --split-input-file --verify-diagnostics | FileCheck %s

// The maximum of two parameters is exchanged at the head; one byte an element is
// gathered. A parameter that others read as well is gathered for them.

#shard = #fsdp.group<"shard", 2>
// CHECK-LABEL: @moves
// CHECK-SAME:    (%[[W:[^:]+]]: tensor<16x16xf32>, %[[V:[^:]+]]: tensor<16x16xbf16>)
// CHECK-NEXT:    %[[WN:.+]] = fsdp.amax %[[W]] : tensor<16x16xf32> -> tensor<f32>
// CHECK-NEXT:    %[[VN:.+]] = fsdp.amax %[[V]] : tensor<16x16xbf16> -> tensor<f32>
// CHECK-NEXT:    %[[WM:.+]] = fsdp.all_reduce max %[[WN]] over #{{.+}} for scale : tensor<f32>
// CHECK-NEXT:    %[[VM:.+]] = fsdp.all_reduce max %[[VN]] over #{{.+}} for scale : tensor<f32>
// CHECK-NEXT:    %[[WS:.+]] = fsdp.scale %[[WM]] to f8E4M3FN least 1.000000e-03 : tensor<f32>
// CHECK-NEXT:    %[[VS:.+]] = fsdp.scale %[[VM]] to f8E4M3FN least 1.000000e-03 power_of_two : tensor<f32>
// CHECK-NEXT:    %[[VI:.+]] = aten.reciprocal(%[[VS]])
// CHECK-NEXT:    %[[W8:.+]] = fsdp.encode %[[W]] by %[[WS]] : tensor<16x16xf32>, tensor<f32> -> tensor<16x16xf8E4M3FN>
// CHECK-NEXT:    %[[WF:.+]] = fsdp.all_gather %[[W8]] dim 0 over #{{.+}} : tensor<16x16xf8E4M3FN> -> tensor<31x16xf8E4M3FN>
// CHECK-NEXT:    %[[OF:.+]] = fsdp.all_gather %[[V]] {{.*}} -> tensor<32x16xbf16>
// CHECK-NEXT:    %[[V8:.+]] = fsdp.encode %[[V]] by %[[VS]] : tensor<16x16xbf16>, tensor<f32> -> tensor<16x16xf8E4M3FN>
// CHECK-NEXT:    %[[VF:.+]] = fsdp.all_gather %[[V8]] {{.*}} -> tensor<32x16xf8E4M3FN>
// CHECK-NEXT:    return %[[WF]], %[[VF]], %[[OF]], %[[VI]]
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"], all_gather = true>} {
  func.func @moves(%w: tensor<16x16xf32>, %v: tensor<16x16xbf16>) -> (tensor<31x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<32x16xbf16>, tensor<f32>) {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<16x16xf32> -> tensor<31x16xf32>
    %m = fsdp.amax %f : tensor<31x16xf32> -> tensor<f32>
    %s = fsdp.scale %m to f8E4M3FN least 1.0e-3 : tensor<f32>
    %f8 = fsdp.encode %f by %s : tensor<31x16xf32>, tensor<f32> -> tensor<31x16xf8E4M3FN>
    %g = fsdp.all_gather %v dim 0 over #shard : tensor<16x16xbf16> -> tensor<32x16xbf16>
    %n = fsdp.amax %g : tensor<32x16xbf16> -> tensor<f32>
    %t = fsdp.scale %n to f8E4M3FN least 1.0e-3 power_of_two : tensor<f32>
    %i = aten.reciprocal(%t) : (tensor<f32>) -> tensor<f32>
    %g8 = fsdp.encode %g by %t : tensor<32x16xbf16>, tensor<f32> -> tensor<32x16xf8E4M3FN>
    return %f8, %g8, %g, %i : tensor<31x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<32x16xbf16>, tensor<f32>
  }
}

// -----

// Not asked for.

#shard = #fsdp.group<"shard", 2>
// CHECK-LABEL: @stays
// CHECK-NEXT:    fsdp.all_gather {{.*}} -> tensor<32x16xf32>
// CHECK-NOT:     fsdp.all_reduce
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"]>} {
  func.func @stays(%w: tensor<16x16xf32>) -> tensor<32x16xf8E4M3FN> {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<16x16xf32> -> tensor<32x16xf32>
    %m = fsdp.amax %f : tensor<32x16xf32> -> tensor<f32>
    %s = fsdp.scale %m to f8E4M3FN least 1.0e-3 : tensor<f32>
    %f8 = fsdp.encode %f by %s : tensor<32x16xf32>, tensor<f32> -> tensor<32x16xf8E4M3FN>
    return %f8 : tensor<32x16xf8E4M3FN>
  }
}
