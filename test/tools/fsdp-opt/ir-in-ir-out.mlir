// IR in, IR out: what mlir-opt does, fsdp-opt does.

// RUN: fsdp-opt --show-dialects %s | FileCheck %s --check-prefix=DIALECTS
// DIALECTS: Available Dialects: aten,builtin,fsdp,func

// RUN: fsdp-opt %s --cse | FileCheck %s
// RUN: fsdp-opt %s --cse --verify-roundtrip -o %t.mlir && FileCheck %s < %t.mlir
// RUN: cat %s | fsdp-opt --cse - | FileCheck %s
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(func.func(cse))' | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-ir-after-all --cse 2>&1 | FileCheck %s --check-prefix=AFTER
// AFTER: IR Dump After CSE

// Text to bytecode and back.
// RUN: fsdp-opt %s --cse -o %t.mlirbc
// RUN: head -c 4 %t.mlirbc | od -An -tx1 | FileCheck %s --check-prefix=BYTECODE
// BYTECODE: 4d 4c ef 52
// RUN: fsdp-opt %t.mlirbc | FileCheck %s

// A device is written to, not replaced.
// RUN: fsdp-opt %s -o /dev/null && test -c /dev/null

// CHECK-LABEL: func.func @twice
// CHECK:         %[[T:.+]] = aten.t(%arg0)
// CHECK-NEXT:    return %[[T]], %[[T]]
func.func @twice(%a: tensor<2x3xf32>) -> (tensor<3x2xf32, #aten.strides<1, 3>>, tensor<3x2xf32, #aten.strides<1, 3>>) {
  %0 = aten.t(%a) : (tensor<2x3xf32>) -> tensor<3x2xf32, #aten.strides<1, 3>>
  %1 = aten.t(%a) : (tensor<2x3xf32>) -> tensor<3x2xf32, #aten.strides<1, 3>>
  return %0, %1 : tensor<3x2xf32, #aten.strides<1, 3>>, tensor<3x2xf32, #aten.strides<1, 3>>
}
