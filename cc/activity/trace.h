// Events with their times, on lanes: lane 0 is the session, lane j + 1 learner j. Knows
// no TensorFlow.
#ifndef TENSORBOW_CC_ACTIVITY_TRACE_H_
#define TENSORBOW_CC_ACTIVITY_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tensorbow {

class Trace {
 public:
  // The most events kept, so that a forgotten trace does not fill the memory. Others
  // are dropped and counted.
  static constexpr size_t kMostEvents = 4000000;

  // `origin`: the clock's nanoseconds at time 0 of the trace.
  explicit Trace(int64_t origin, size_t most_events = kMostEvents)
      : origin_(origin), most_events_(most_events) {}

  // Returns the number of a name, by which events refer to it.
  int Number(const std::string& name);
  // Adds an event. `name` is a number that Number() returned. An event that started
  // before the origin is cut there.
  void Add(int lane, int name, int64_t begin, int64_t end);

  // Returns the trace in Chrome's trace event format, for chrome://tracing and
  // Perfetto.
  std::string Json() const;

 private:
  struct Event {
    int lane;
    int name;
    int64_t begin;
    int64_t end;
  };

  int64_t origin_;
  size_t most_events_;
  int64_t dropped_ = 0;
  int num_lanes_ = 1;
  std::vector<std::string> names_;
  std::unordered_map<std::string, int> numbers_;  // by name
  std::vector<Event> events_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ACTIVITY_TRACE_H_
