//===- Rendezvous.cpp - How processes find each other ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/processes/Rendezvous.h"
#include "runtime/comm/Label.h"
#include "runtime/comm/processes/Round.h"
#include "runtime/comm/processes/TcpStore.h"
#include "support/Error.h"

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>

using namespace fsdp;

static std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// The whole of `text` as a number in [least, most].
static int parseNumber(const std::string &name, std::string_view text,
                       int least, int most) {
  int value = 0;
  auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() ||
      value < least || value > most)
    throw Error(ErrorId::RendezvousInvalid,
                "expected " + name + " to be a number from " +
                    std::to_string(least) + " to " + std::to_string(most) +
                    ", found '" + std::string(text) + "'");
  return value;
}

std::optional<LauncherInfo> fsdp::readLauncher() {
  struct Names {
    const char *launcher, *rank, *worldSize, *localRank;
  };
  static constexpr Names kLaunchers[] = {
      {"the environment", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
      {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
      {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
  };
  for (const Names &names : kLaunchers) {
    std::string rank = environment(names.rank);
    if (rank.empty())
      continue;
    constexpr int kMost = 1 << 24;
    LauncherInfo info;
    info.launcher = names.launcher;
    info.worldSize =
        parseNumber(names.worldSize, environment(names.worldSize), 1, kMost);
    info.rank = parseNumber(names.rank, rank, 0, info.worldSize - 1);
    std::string local = environment(names.localRank);
    if (!local.empty())
      info.localRank =
          parseNumber(names.localRank, local, 0, info.worldSize - 1);
    return info;
  }
  return std::nullopt;
}

bool Rendezvous::isLoopback() const {
  return kind == Kind::tcp &&
         (host == "localhost" || host == "::1" || host.starts_with("127."));
}

Rendezvous fsdp::parseRendezvous(std::string_view address) {
  Rendezvous where;
  where.prefix = "fsdp/";
  if (address == "env://") {
    where.host = environment("MASTER_ADDR");
    if (where.host.empty())
      throw Error(ErrorId::RendezvousInvalid,
                  "expected MASTER_ADDR and MASTER_PORT in the environment, "
                  "found no MASTER_ADDR; set both to an address of rank 0's "
                  "machine and a free port there");
    where.port =
        parseNumber("MASTER_PORT", environment("MASTER_PORT"), 1, 65535);
    where.served = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
    return where;
  }
  // A store that a program has open already, and serves.
  constexpr std::string_view kOpenStore = "store://", kTcp = "tcp://";
  where.served = address.starts_with(kOpenStore);
  if (where.served || address.starts_with(kTcp)) {
    std::string_view rest =
        address.substr(where.served ? kOpenStore.size() : kTcp.size());
    size_t colon = rest.rfind(':');
    if (colon != std::string_view::npos && colon > 0) {
      std::string_view host = rest.substr(0, colon);
      if (host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
      where.host = host;
      where.port =
          parseNumber("the rendezvous port", rest.substr(colon + 1), 1, 65535);
      return where;
    }
  }
  if (address.starts_with("file:///")) {
    where.kind = Rendezvous::Kind::file;
    where.path = address.substr(7);
    where.prefix += environment("TORCHELASTIC_RESTART_COUNT") + "/";
    return where;
  }
  throw Error(ErrorId::RendezvousInvalid,
              "expected env://, tcp://host:port or file:///path as the ranks' "
              "meeting point, found '" +
                  std::string(address) + "'");
}

std::unique_ptr<Store> fsdp::connectStore(const Rendezvous &where, int rank,
                                          int worldSize,
                                          std::chrono::milliseconds deadline,
                                          const StoreNote &note) {
  bool serves =
      where.kind == Rendezvous::Kind::tcp && !where.served && rank == 0;
  std::string address = where.kind == Rendezvous::Kind::tcp
                            ? where.host + ":" + std::to_string(where.port)
                            : where.path;
  // What c10d would print, with stack traces, is said by our errors.
  if (!std::getenv("TORCH_CPP_LOG_LEVEL"))
    FLAGS_caffe2_log_level = 3;
  c10::intrusive_ptr<c10d::Store> base;
  try {
    if (where.kind == Rendezvous::Kind::file) {
      base = c10::make_intrusive<c10d::FileStore>(where.path, worldSize);
    } else {
      base = connectTcpStore(where.host, where.port, serves, deadline, note);
    }
  } catch (const std::exception &error) {
    std::string text = error.what();
    throw Error(ErrorId::RendezvousFailed,
                "rank " + std::to_string(rank) + ": expected to " +
                    (serves ? "serve" : "reach") + " the ranks' store at " +
                    address + " within " + describe(deadline) +
                    ", found: " + text.substr(0, text.find('\n')));
  }
  std::string prefix = where.prefix;
  if (where.served) {
    Store lobby(base, prefix, /*servedHere=*/false);
    prefix += agreeOnRound(lobby, rank, worldSize, deadline) + "/";
  }
  return std::make_unique<Store>(std::move(base), prefix, serves);
}
