// RUN: fsdp-opt %s --fsdp-lower-lookups -o - | FileCheck %s

// A rank looks up its own rows, and its first one in the places of others', which it makes zeros. Negative indices are left to the first rank's kernel, those
// behind the last row to the last one's.

// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    %[[W:[^:]+]]: tensor<4x6xf32>, %[[X:[^:]+]]: tensor<3xi64>, %[[G:[^:]+]]: tensor<3x6xf32>
// CHECK:      %[[FIRSTS:.+]] = fsdp.constant dense<[0, 4]> : tensor<2xi64>
// CHECK-NEXT: %[[FIRST:.+]] = fsdp.select_rows %[[FIRSTS]] dim 0 from [0, 1] over #tp : tensor<2xi64> -> tensor<1xi64>
// CHECK-NEXT: fsdp.constant dense<[-9223372036854775808, 4]> : tensor<2xi64>
// CHECK-NEXT: %[[FROM:.+]] = fsdp.select_rows
// CHECK-NEXT: fsdp.constant dense<[3, 9223372036854775807]> : tensor<2xi64>
// CHECK-NEXT: %[[TO:.+]] = fsdp.select_rows
// CHECK-NEXT: %[[GE:.+]] = aten.ge.Tensor(%[[X]], %[[FROM]])
// CHECK-NEXT: %[[LE:.+]] = aten.le.Tensor(%[[X]], %[[TO]])
// CHECK-NEXT: %[[OWN:.+]] = aten.logical_and(%[[GE]], %[[LE]])
// CHECK-NEXT: %[[ROW:.+]] = aten.sub.Tensor(%[[X]], %[[FIRST]])
// CHECK-NEXT: %[[FILL:.+]] = fsdp.constant dense<0> : tensor<i64>
// CHECK-NEXT: %[[AT:.+]] = aten.where.self(%[[OWN]], %[[ROW]], %[[FILL]])
// CHECK-NEXT: %[[ALL:.+]] = aten.embedding(%[[W]], %[[AT]])
// CHECK-NOT:  fsdp.rows
// CHECK:      %[[MASK:.+]] = aten.view(%[[OWN]], size = [3, 1])
// CHECK:      %[[E:.+]] = aten.where.self(%[[MASK]], %[[ALL]], %{{.+}})

// Its gradient passes over them, and over the row that has none.

// CHECK:      %[[NE:.+]] = aten.ne.Scalar(%[[X]], other = 5)
// CHECK-NEXT: %[[BOTH:.+]] = aten.logical_and(%{{.+}}, %[[NE]])
// CHECK-NEXT: %[[NONE:.+]] = fsdp.constant dense<-1> : tensor<i64>
// CHECK-NEXT: %[[AT:.+]] = aten.where.self(%[[BOTH]], %{{.+}}, %[[NONE]])
// CHECK-NEXT: %[[D:.+]] = aten.embedding_dense_backward(%[[G]], %[[AT]], num_weights = 4, padding_idx = -1, scale_grad_by_freq = false) :

// What is whole stays as it is.

// CHECK-NEXT: %[[O:.+]] = aten.embedding(%[[W]], %[[X]]) :
// CHECK-NEXT: return %[[E]], %[[D]], %[[O]]
#tp = #fsdp.group<"tp", 2>
#rows = #fsdp.placed<shard dim 0 over #tp>
module {
  func.func @"train/step"(%w: tensor<4x6xf32>, %x: tensor<3xi64>, %g: tensor<3x6xf32>) -> (tensor<3x6xf32>, tensor<4x6xf32>, tensor<3x6xf32>) {
    %e = aten.embedding(%w, %x) {fsdp.rows = #rows} : (tensor<4x6xf32>, tensor<3xi64>) -> tensor<3x6xf32>
    %d = aten.embedding_dense_backward(%g, %x, num_weights = 4, padding_idx = 5, scale_grad_by_freq = false) {fsdp.rows = #rows} : (tensor<3x6xf32>, tensor<3xi64>) -> tensor<4x6xf32>
    %o = aten.embedding(%w, %x) : (tensor<4x6xf32>, tensor<3xi64>) -> tensor<3x6xf32>
    return %e, %d, %o : tensor<3x6xf32>, tensor<4x6xf32>, tensor<3x6xf32>
  }
}
