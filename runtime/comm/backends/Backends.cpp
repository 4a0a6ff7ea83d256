//===- Backends.cpp - Back ends by name -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/backends/Backends.h"
#include "runtime/comm/fake/Fake.h"
#include "runtime/comm/gloo/Gloo.h"
#include "runtime/comm/local/Local.h"
#include "runtime/comm/nccl/Nccl.h"
#include "support/Error.h"

using namespace fsdp;

using Fabrics = std::vector<std::unique_ptr<Fabric>>;

static Fabrics connectLocal(const FabricOptions &options) {
  return makeLocalFabrics(options.worldSize, options.deadline);
}

static Fabrics connectGloo(const FabricOptions &options) {
  Fabrics fabrics;
  fabrics.push_back(connectGlooFabric(options));
  return fabrics;
}

static Fabrics connectNccl(const FabricOptions &options) {
  Fabrics fabrics;
  fabrics.push_back(connectNcclFabric(options));
  return fabrics;
}

static Fabrics connectFake(const FabricOptions &options) {
  Fabrics fabrics;
  fabrics.push_back(
      std::make_unique<FakeFabric>(options.fakeRank, options.worldSize));
  return fabrics;
}

const std::vector<Backend> &fsdp::backends() {
  static const std::vector<Backend> all = {
      {"local", "ranks are threads of one process", true, nullptr,
       connectLocal},
      {"gloo", "ranks are processes, which talk over TCP", false, nullptr,
       connectGloo},
      {"nccl", "ranks are processes, each with a GPU", false, prepareNccl,
       connectNccl},
      {"fake", "one rank plays its part alone, without the others' data", false,
       nullptr, connectFake},
  };
  return all;
}

const Backend &fsdp::findBackend(std::string_view name) {
  std::string known;
  for (const Backend &backend : backends()) {
    if (backend.name == name)
      return backend;
    known += (known.empty() ? "" : ", ") + std::string(backend.name);
  }
  throw Error(ErrorId::UnknownBackend, "expected one of " + known +
                                           " as back end, found '" +
                                           std::string(name) + "'");
}
