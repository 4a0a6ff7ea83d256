// RUN: fsdp-opt %s --fsdp-float8-gathers --split-input-file --verify-diagnostics | FileCheck %s

// The maximum of two parameters is exchanged at the head; one byte an element is
// gathered. A parameter that others read as well is gathered for them.

#shard = #fsdp.group<"shard", 2>
// CHECK-LABEL: @moves
// CHECK-SAME:    (%[[W:[^:]+]]: tensor<16x16xf32>, %[[V:[^:]+]]: tensor<16x16xbf16>)
// CHECK-NEXT:    %[[WN:.+]] = aten.linalg_vector_norm(%[[W]], ord = 0x7FF0000000000000 : f64) : (tensor<16x16xf32>)
// CHECK-NEXT:    %[[VN:.+]] = aten.linalg_vector_norm(%[[V]], ord = 0x7FF0000000000000 : f64, dtype = f32) : (tensor<16x16xbf16>)
// CHECK-NEXT:    %[[WM:.+]] = fsdp.all_reduce max %[[WN]] over #{{.+}} for scale : tensor<f32>
// CHECK-NEXT:    %[[VM:.+]] = fsdp.all_reduce max %[[VN]] over #{{.+}} for scale : tensor<f32>
// CHECK-NEXT:    %[[WS:.+]] = aten.reciprocal(%[[WM]])
// CHECK-NEXT:    %[[VS:.+]] = aten.reciprocal(%[[VM]])
// CHECK-NEXT:    %[[WA:.+]] = aten.mul.Tensor(%[[W]], %[[WS]]) : (tensor<16x16xf32>, tensor<f32>) -> tensor<16x16xf32>
// CHECK-NEXT:    %[[W8:.+]] = aten._to_copy(%[[WA]], dtype = f8E4M3FN)
// CHECK-NEXT:    %[[WF:.+]] = fsdp.all_gather %[[W8]] dim 0 over #{{.+}} : tensor<16x16xf8E4M3FN> -> tensor<31x16xf8E4M3FN>
// CHECK-NEXT:    %[[OF:.+]] = fsdp.all_gather %[[V]] {{.*}} -> tensor<32x16xbf16>
// CHECK-NEXT:    %[[VW:.+]] = aten._to_copy(%[[V]], dtype = f32) : (tensor<16x16xbf16>) -> tensor<16x16xf32>
// CHECK-NEXT:    %[[VA:.+]] = aten.mul.Tensor(%[[VW]], %[[VS]])
// CHECK-NEXT:    %[[V8:.+]] = aten._to_copy(%[[VA]], dtype = f8E4M3FN)
// CHECK-NEXT:    %[[VF:.+]] = fsdp.all_gather %[[V8]] {{.*}} -> tensor<32x16xf8E4M3FN>
// CHECK-NEXT:    return %[[WF]], %[[VF]], %[[OF]]
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"], all_gather = true>} {
  func.func @moves(%w: tensor<16x16xf32>, %v: tensor<16x16xbf16>) -> (tensor<31x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<32x16xbf16>) {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<16x16xf32> -> tensor<31x16xf32>
    %m = aten.linalg_vector_norm(%f, ord = 0x7FF0000000000000 : f64) : (tensor<31x16xf32>) -> tensor<f32>
    %s = aten.reciprocal(%m) : (tensor<f32>) -> tensor<f32>
    %a = aten.mul.Tensor(%f, %s) : (tensor<31x16xf32>, tensor<f32>) -> tensor<31x16xf32>
    %f8 = aten._to_copy(%a, dtype = f8E4M3FN) : (tensor<31x16xf32>) -> tensor<31x16xf8E4M3FN>
    %g = fsdp.all_gather %v dim 0 over #shard : tensor<16x16xbf16> -> tensor<32x16xbf16>
    %n = aten.linalg_vector_norm(%g, ord = 0x7FF0000000000000 : f64, dtype = f32) : (tensor<32x16xbf16>) -> tensor<f32>
    %t = aten.reciprocal(%n) : (tensor<f32>) -> tensor<f32>
    %h = aten._to_copy(%g, dtype = f32) : (tensor<32x16xbf16>) -> tensor<32x16xf32>
    %b = aten.mul.Tensor(%h, %t) : (tensor<32x16xf32>, tensor<f32>) -> tensor<32x16xf32>
    %g8 = aten._to_copy(%b, dtype = f8E4M3FN) : (tensor<32x16xf32>) -> tensor<32x16xf8E4M3FN>
    return %f8, %g8, %g : tensor<31x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<32x16xbf16>
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
    %m = aten.linalg_vector_norm(%f, ord = 0x7FF0000000000000 : f64) : (tensor<32x16xf32>) -> tensor<f32>
    %a = aten.mul.Tensor(%f, %m) : (tensor<32x16xf32>, tensor<f32>) -> tensor<32x16xf32>
    %f8 = aten._to_copy(%a, dtype = f8E4M3FN) : (tensor<32x16xf32>) -> tensor<32x16xf8E4M3FN>
    return %f8 : tensor<32x16xf8E4M3FN>
  }
}
