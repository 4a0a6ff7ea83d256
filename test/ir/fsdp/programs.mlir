// RUN: fsdp-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// What a program is for stands in its attribute; its name says nothing.

// CHECK-LABEL: @a() attributes {fsdp.program = #fsdp.program<kind = eval>}
func.func @a() attributes {fsdp.program = #fsdp.program<kind = eval>} { return }
// CHECK-LABEL: @b() attributes {fsdp.program = #fsdp.program<part = middle, shapes = "x.0=4">}
func.func @b() attributes {fsdp.program = #fsdp.program<part = middle, shapes = "x.0=4">} { return }
// CHECK-LABEL: @c() attributes {fsdp.program = #fsdp.program<reference = true>}
func.func @c() attributes {fsdp.program = #fsdp.program<kind = train, part = whole, reference = true>} { return }

// -----

// expected-error @+1 {{expected a whole step of 'infer', found its part 'last'}}
func.func @f() attributes {fsdp.program = #fsdp.program<kind = infer, part = last>} { return }

// -----

// expected-error @+1 {{'fsdp.program' expects a function and a #fsdp.program}}
func.func @f() attributes {fsdp.program = "train"} { return }

// -----

// expected-error @+1 {{'fsdp.program' expects a function and a #fsdp.program}}
module attributes {fsdp.program = #fsdp.program<>} {}
