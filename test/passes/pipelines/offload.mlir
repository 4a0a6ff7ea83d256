// States on the host go through all stages, are planned in a memory of their own,
// and the checks of a plan look at both.
//
// DEFINE: %{told} = {shards<world = 2>, buckets<policy = classes, classes = ["Linear"], reshard = all>, optimizer<lr = 0.001, max_grad_norm = 1.0>, offload<params = true>}
//
// RUN: fsdp-opt %stages/1-captured.mlir --fsdp-annotate='with=%{told}' --fsdp-pipeline -o %t.4
// RUN: FileCheck %s < %t.4
// RUN: fsdp-opt %t.4 -o %t.fsdp
// RUN: fsdp-opt %t.fsdp -o - | FileCheck %s --check-prefix=ARTIFACT
//
// Erasing the sharding gives the captured program back.
//
// RUN: fsdp-opt %stages/1-captured.mlir --fsdp-annotate='with=%{told}' --fsdp-shard-pipeline -o %t.2
// RUN: fsdp-opt %t.2 --fsdp-drop-reference --fsdp-unshard --cse | grep -v "^$" > %t.1
// RUN: grep -vE "^(//|$)" %stages/1-captured.mlir | diff - %t.1
//
// CHECK: fsdp.memory = {{.*}}host = {activations = {{[0-9]+}} : i64, buffers = 0 : i64, gathered = 0 : i64, grads = {{[0-9]+}} : i64, inputs = 0 : i64, optimizer = [[OPTIMIZER:[0-9]+]] : i64, params = [[PARAMS:[0-9]+]] : i64, peak = {{[0-9]+}} : i64, states = {{[0-9]+}} : i64}{{.*}} optimizer = 0 : i64, params = 0 : i64
// CHECK: fsdp.state parameter {{.*}} at 0 memory host
//
// ARTIFACT: memory {{[0-9]+}} bytes: states 0 (params 0, optimizer 0
// ARTIFACT: host memory {{[0-9]+}} bytes, pinned: states
// ARTIFACT: parameter {{.*}} @0 {{[0-9]+}} bytes host
// ARTIFACT: argument {{.*}} host @0 "
// ARTIFACT: future0 = copy.start "{{.*}}"({{.*}}) to device on upload
// ARTIFACT: = wait future0
// ARTIFACT: to host on download
//
// An address on the host that is taken, one outside of its arena, and an arena of
// another size.
//
// RUN: sed -E 's/(copy.start.*to host on download \{fsdp.at = array<i64: )[0-9]+/\10/' %t.4 > %t.taken
// RUN: not diff %t.4 %t.taken
// RUN: not fsdp-opt %t.taken --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=TAKEN
// TAKEN: error: lies at 0 with {{[0-9]+}} bytes; expected a multiple of {{[0-9]+}} from {{[0-9]+}} on, inside of the host's arena
// RUN: not fsdp-opt %t.taken --fsdp-verify-memory 2>&1 | FileCheck %s --check-prefix=OVERWRITES
// OVERWRITES: writes over memory that is still in use, at
//
// RUN: sed -E 's/(to host on download \{fsdp.at = array<i64: )[0-9]+/\11000000/' %t.4 | not fsdp-opt - --fsdp-verify-memory 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// OUTSIDE: writes from 1000000 to {{[0-9]+}}, outside of the arena of
//
// RUN: sed -E 's/(host = \{[^}]* peak = )[0-9]+/\199/' %t.4 | not fsdp-opt - --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=SIZE
// SIZE: inside of the host's arena of 99
//
// RUN: sed -E 's/host = \{[^}]*\}, //' %t.4 | not fsdp-opt - --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: states 0 bytes of the host's states; they end at
