#include "kernels/emulator/remote_shadow.h"

namespace hone::emulator {
namespace {

// One key per warp of the cluster.
uint32_t KeyOf(const RemoteShadow::Access& access) {
  return access.rank * kMaxWarps + access.warp;
}

RemoteShadow::Note NoteOf(const RemoteShadow::Access& access) {
  return {(*access.clock)[access.warp], access.statement,
          static_cast<uint8_t>(access.rank), static_cast<uint8_t>(access.warp),
          access.strong};
}

}  // namespace

bool RemoteShadow::Ordered(uint32_t byte, const Note& note,
                           const Access& access) {
  if (note.clock == 0) return true;
  if (note.rank == access.rank && note.warp == access.warp) return true;
  if (note.strong && access.strong) return true;
  if (access.clock->Of(note.rank)[note.warp] >= note.clock) return true;
  conflict_ = {byte, note.rank, note.warp, note.statement};
  return false;
}

bool RemoteShadow::OrderedAfterWrites(uint32_t offset, uint32_t bytes,
                                      const Access& access) {
  if (writers_.empty()) return true;
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    if (!Ordered(b, writers_[b], access)) return false;
  }
  return true;
}

bool RemoteShadow::OrderedAfterReads(uint32_t offset, uint32_t bytes,
                                     const Access& access) {
  for (const auto& [key, notes] : readers_) {
    for (uint32_t b = offset; b < offset + bytes; ++b) {
      if (!Ordered(b, notes[b], access)) return false;
    }
  }
  return true;
}

bool RemoteShadow::Fenced(uint32_t offset, uint32_t bytes,
                          const VectorClock& clock) {
  if (writers_.empty()) return true;
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    const Note& note = writers_[b];
    if (note.clock <= clock.Of(note.rank)[kFenced + note.warp]) continue;
    conflict_ = {b, note.rank, note.warp, note.statement};
    return false;
  }
  return true;
}

void RemoteShadow::ForgetWrites(uint32_t offset, uint32_t bytes) {
  if (writers_.empty()) return;
  for (uint32_t b = offset; b < offset + bytes; ++b) writers_[b] = Note();
}

void RemoteShadow::NoteUse(const Access& access) {
  last_[KeyOf(access)] = NoteOf(access);
}

void RemoteShadow::NoteRead(uint32_t offset, uint32_t bytes, uint32_t size,
                            const Access& access) {
  std::vector<Note>& notes = readers_[KeyOf(access)];
  notes.resize(size);
  const Note note = NoteOf(access);
  for (uint32_t b = offset; b < offset + bytes; ++b) notes[b] = note;
  last_[KeyOf(access)] = note;
}

void RemoteShadow::NoteWrite(uint32_t offset, uint32_t bytes, uint32_t size,
                             const Access& access) {
  writers_.resize(size);
  const Note note = NoteOf(access);
  for (uint32_t b = offset; b < offset + bytes; ++b) writers_[b] = note;
  last_[KeyOf(access)] = note;
}

}  // namespace hone::emulator
