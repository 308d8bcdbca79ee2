// Immediate post-dominators of the control-flow graph, by the iterative
// algorithm of Cooper, Harvey and Kennedy on the reversed graph.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/emulator/decoder.h"

namespace hone::emulator {
namespace {

struct Block {
  uint32_t first = 0;
  std::vector<uint32_t> successors;
  std::vector<uint32_t> predecessors;
};

}  // namespace

void FindReconvergence(Kernel* kernel) {
  std::vector<Instruction>& code = kernel->code;
  const uint32_t size = code.size();
  const auto is_branch = [&](const Instruction& inst) {
    return inst.target != kNone;
  };
  const auto targets = [&](const Instruction& inst) {
    std::vector<uint32_t> out;
    if (inst.jump_table) {
      out = kernel->jump_tables[inst.target];
    } else {
      out.push_back(inst.target);
    }
    return out;
  };
  const auto is_exit = [](const Instruction& inst) { return inst.ends_lane; };

  std::vector<bool> leader(size + 1, false);
  leader[0] = true;
  for (uint32_t i = 0; i < size; ++i) {
    if (is_branch(code[i])) {
      for (uint32_t target : targets(code[i])) leader[target] = true;
    }
    if (is_branch(code[i]) || is_exit(code[i])) leader[i + 1] = true;
  }
  std::vector<Block> blocks;
  std::vector<uint32_t> block_of(size);
  for (uint32_t i = 0; i < size; ++i) {
    if (leader[i]) {
      blocks.emplace_back();
      blocks.back().first = i;
    }
    block_of[i] = blocks.size() - 1;
  }
  const uint32_t exit = blocks.size();
  blocks.emplace_back();
  const auto connect = [&](uint32_t from, uint32_t to) {
    blocks[from].successors.push_back(to);
    blocks[to].predecessors.push_back(from);
  };
  for (uint32_t b = 0; b < exit; ++b) {
    const uint32_t last = (b + 1 < exit ? blocks[b + 1].first : size) - 1;
    const Instruction& inst = code[last];
    const bool guarded = inst.guard != kNone;
    if (is_branch(inst)) {
      for (uint32_t target : targets(inst)) connect(b, block_of[target]);
      if (guarded) connect(b, block_of[last + 1]);
    } else if (is_exit(inst)) {
      connect(b, exit);
      if (guarded) connect(b, block_of[last + 1]);
    } else {
      connect(b, block_of[last + 1]);
    }
  }

  // Postorder of the reversed graph, from the exit.
  std::vector<uint32_t> number(blocks.size(), kNone);
  std::vector<uint32_t> order;
  std::vector<std::pair<uint32_t, size_t>> stack = {{exit, 0}};
  std::vector<bool> seen(blocks.size(), false);
  seen[exit] = true;
  while (!stack.empty()) {
    auto& [block, next] = stack.back();
    if (next < blocks[block].predecessors.size()) {
      const uint32_t p = blocks[block].predecessors[next++];
      if (!seen[p]) {
        seen[p] = true;
        stack.push_back({p, 0});
      }
    } else {
      number[block] = order.size();
      order.push_back(block);
      stack.pop_back();
    }
  }
  std::vector<uint32_t> post_dominator(blocks.size(), kNone);
  post_dominator[exit] = exit;
  for (bool changed = true; changed;) {
    changed = false;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (*it == exit) continue;
      uint32_t meet = kNone;
      for (uint32_t s : blocks[*it].successors) {
        if (post_dominator[s] == kNone) continue;
        if (meet == kNone) {
          meet = s;
          continue;
        }
        uint32_t other = s;
        while (meet != other) {
          while (number[meet] < number[other]) meet = post_dominator[meet];
          while (number[other] < number[meet]) other = post_dominator[other];
        }
      }
      if (post_dominator[*it] != meet) {
        post_dominator[*it] = meet;
        changed = true;
      }
    }
  }
  for (uint32_t i = 0; i < size; ++i) {
    if (!is_branch(code[i])) continue;
    const uint32_t p = post_dominator[block_of[i]];
    // Paths that only meet at the exit, or never end, do not reconverge.
    if (p != kNone && p != exit) code[i].reconverge = blocks[p].first;
  }
}

}  // namespace hone::emulator
