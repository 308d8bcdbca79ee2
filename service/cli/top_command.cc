// top: what the daemons do now, again and again.
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/config/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/connection.h"
#include "service/cli/top.h"

namespace hone {
namespace {

// A daemon that does not answer must not hold up the others for long.
constexpr absl::Duration kDeadline = absl::Seconds(3);
constexpr int kMostTunes = 200;

using Connections = std::vector<std::unique_ptr<Connection>>;

template <typename Request, typename Response>
absl::Status Ask(Connection& connection,
                 grpc::Status (v1::TuningService::Stub::*method)(
                     grpc::ClientContext*, const Request&, Response*),
                 const Request& request, Response& response) {
  grpc::ClientContext context;
  Connection::SetDeadline(context, kDeadline);
  const grpc::Status status =
      (connection.stub().*method)(&context, request, &response);
  return status.ok() ? absl::OkStatus() : connection.ToStatus(status);
}

TopNode ReadNode(Connection& connection) {
  TopNode node;
  node.address = connection.address();
  v1::ListDevicesResponse devices;
  node.status = Ask(connection, &v1::TuningService::Stub::ListDevices,
                    v1::ListDevicesRequest(), devices);
  if (!node.status.ok()) return node;
  v1::ListTunesRequest request;
  request.set_page_size(kMostTunes);
  v1::ListTunesResponse tunes;
  node.status =
      Ask(connection, &v1::TuningService::Stub::ListTunes, request, tunes);
  if (!node.status.ok()) return node;
  node.devices.assign(devices.devices().begin(), devices.devices().end());
  node.tunes.assign(tunes.tunes().begin(), tunes.tunes().end());
  return node;
}

// Asks all at once.
std::vector<TopNode> ReadNodes(const Connections& connections) {
  std::vector<TopNode> nodes(connections.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < connections.size(); ++i) {
    threads.emplace_back([&, i] { nodes[i] = ReadNode(*connections[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  return nodes;
}

void Watch(const Invocation& invocation, TerminalScreen& screen,
           const Connections& connections, absl::Duration interval) {
  const std::atomic<int>& interrupts = invocation.env.interrupts;
  const int before = interrupts.load();
  while (interrupts.load() == before) {
    const std::vector<TopNode> nodes = ReadNodes(connections);
    const absl::Time now = absl::Now();
    std::vector<ScreenLine> lines = {
        {absl::StrCat("hone top  ",
                      absl::FormatTime("%H:%M:%S", now, absl::LocalTimeZone()),
                      "  every ", absl::FormatDuration(interval), "  q quits"),
         ScreenLine::Style::kQuiet},
        {}};
    for (ScreenLine& line : RenderTop(nodes, now))
      lines.push_back(std::move(line));
    screen.Draw(lines);
    const absl::Time next = now + interval;
    while (interrupts.load() == before && absl::Now() < next) {
      const char key = screen.WaitForKey(next - absl::Now(), interrupts);
      if (key == 'q' || key == 'Q') return;
    }
  }
}

absl::Status RunTop(const Invocation& invocation) {
  HONE_ASSIGN_OR_RETURN(
      const std::optional<absl::Duration> interval,
      invocation.args.Time("interval", absl::Milliseconds(200),
                           absl::Hours(1)));
  Connections connections;
  for (const std::string& address : invocation.addresses)
    connections.push_back(std::make_unique<Connection>(address));
  const Environment& env = invocation.env;
  if (invocation.format == Format::kTable && !invocation.args.Has("once") &&
      env.terminal_out >= 0) {
    if (const auto screen =
            TerminalScreen::Open(env.terminal_in, env.terminal_out)) {
      Watch(invocation, *screen, connections,
            interval.value_or(absl::Seconds(1)));
      return absl::OkStatus();
    }
  }

  const std::vector<TopNode> nodes = ReadNodes(connections);
  std::ostream& out = env.out;
  std::vector<Json> items;
  absl::Status failed;
  size_t answered = 0;
  for (const TopNode& node : nodes) {
    items.push_back(TopNodeJson(node));
    if (node.status.ok()) {
      ++answered;
    } else if (failed.ok()) {
      failed = node.status;
    }
  }
  switch (invocation.format) {
    case Format::kTable:
      // Without an answer the error says all there is.
      if (answered == 0) break;
      for (const ScreenLine& line : RenderTop(nodes, absl::Now()))
        out << FitLine(line.text, line.text.size()) << "\n";
      break;
    case Format::kJson:
      out << JsonObject().Add("daemons", JsonArray(items)).Build().text << "\n";
      break;
    case Format::kJsonLines:
      for (const Json& item : items) out << item.text << "\n";
      break;
  }
  return failed;
}

}  // namespace

Command TopCommand() {
  Command command;
  command.name = "top";
  command.many_addresses = true;
  command.summary = "watch devices and jobs";
  command.details =
      "Devices with what keeps them from tuning (a quarantine, a missing "
      "driver), the job that\nruns, those that wait, and the last that ended. "
      "On a terminal it refreshes in place until\nq or Ctrl-C; elsewhere, with "
      "--once or another --output than table it prints what is now.\nWith "
      "several daemons, exits with an error when one does not answer.\n";
  command.flags = {
      {"once", "", "print what is now and end"},
      {"interval", "TIME", "between refreshes, 200ms to 1h; 1s unless given"},
  };
  command.run = RunTop;
  return command;
}

}  // namespace hone
