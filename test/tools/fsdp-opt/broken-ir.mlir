// A program that does not parse, with a config: status 1, the id first, the
// place below.

// RUN: not fsdp-opt %s --config=%S/Inputs/two-ranks.yaml 2>&1 | FileCheck %s
// RUN: sh -c 'fsdp-opt %s --config=%S/Inputs/two-ranks.yaml; test $? = 1'

// CHECK: error[fsdp-E050]: '{{.*}}broken-ir.mlir' holds no valid program
// CHECK-NEXT: broken-ir.mlir:[[@LINE+1]]:{{[0-9]+}}: error: expected
func.func @f( {

// Bytecode that was cut off, or begins as bytecode alone, is refused too; without
// a config as mlir-opt does it.
// RUN: fsdp-opt %stages/1-captured.mlir -o %t.mlirbc
// RUN: head -c 900 %t.mlirbc > %t.cut.mlirbc
// RUN: not fsdp-opt %t.cut.mlirbc 2>&1 | FileCheck %s --check-prefix=PLAIN
// PLAIN: cut.mlirbc:0:0: error: attempting to parse {{[0-9]+}} bytes when only {{[0-9]+}} remain
// RUN: not fsdp-opt %t.cut.mlirbc --config=%S/Inputs/two-ranks.yaml 2>&1 | FileCheck %s --check-prefix=CUT
// CUT: error[fsdp-E050]: '{{.*}}cut.mlirbc' holds no valid program
// CUT-NEXT: cut.mlirbc:0: error: attempting to parse
// RUN: printf 'ML\357Rgarbage' > %t.not.mlirbc
// RUN: not fsdp-opt %t.not.mlirbc --config=%S/Inputs/two-ranks.yaml 2>&1 | FileCheck %s --check-prefix=NOT
// NOT: error[fsdp-E050]: '{{.*}}not.mlirbc' holds no valid program
// NOT-NEXT: not.mlirbc:0: error: bytecode version
