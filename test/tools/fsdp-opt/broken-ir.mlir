// A program that does not parse, with a config: status 1, the id first, the
// place below.

// RUN: not fsdp-opt %s --config=%S/Inputs/two-ranks.yaml 2>&1 | FileCheck %s
// RUN: sh -c 'fsdp-opt %s --config=%S/Inputs/two-ranks.yaml; test $? = 1'

// CHECK: error[fsdp-E050]: '{{.*}}broken-ir.mlir' holds no valid program
// CHECK-NEXT: broken-ir.mlir:[[@LINE+1]]:{{[0-9]+}}: error: expected
func.func @f( {

// Damaged bytecode is refused too, with and without a config.
// RUN: fsdp-opt %stages/1-captured.mlir -o %t.mlirbc
// RUN: head -c 900 %t.mlirbc > %t.cut.mlirbc
// RUN: not fsdp-opt %t.cut.mlirbc 2>&1 | FileCheck %s --check-prefix=CUT
// RUN: not fsdp-opt %t.cut.mlirbc --config=%S/Inputs/two-ranks.yaml 2>&1 | FileCheck %s --check-prefix=CUT
// CUT: error[fsdp-E050]: '{{.*}}cut.mlirbc' holds no valid program
