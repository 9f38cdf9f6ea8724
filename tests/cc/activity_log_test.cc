#include "cc/activity/activity_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tensorbow {
namespace {

constexpr int64_t kMilli = 1000000;

std::string NameOfVariable(int64_t number) { return number == 1 ? "w" : "v"; }

// Records learner j's only task of a run, from `begin` to `end`, including `waited`; in
// milliseconds.
void NoteTask(ActivityLog* log, int j, int begin, int end, int waited) {
  LearnerActivity* const learner = log->learner(j);
  learner->BeginTask(begin * kMilli);
  learner->Note(Activity::kWait, begin * kMilli, (begin + waited) * kMilli);
  learner->EndTask(end * kMilli, 0);
}

TEST(ActivityLog, KnowsNothingAtFirst) {
  ActivityLog log;
  log.SetLearners(2);
  const ActivityLog::Figures figures = log.figures();
  EXPECT_EQ(figures.runs, 0);
  EXPECT_EQ(figures.synchronisation, 0);
  ASSERT_EQ(figures.learners.size(), 2u);
  EXPECT_EQ(figures.learners[0].tasks, 0);
  EXPECT_EQ(figures.learners[0].task.median, 0);
  EXPECT_EQ(log.StopTrace(), nullptr);
}

// Run i lasts from 100 i to 100 i + 50. Learner 0 computes for 40 and waits for 10 of
// these; learner 1 computes for 20 + i and waits for the end of the run.
TEST(ActivityLog, FiguresAreThoseOfTheRuns) {
  ActivityLog log;
  log.SetLearners(2);
  for (int i = 0; i < 3; ++i) {
    log.BeginRun(100 * i * kMilli);
    NoteTask(&log, 0, 100 * i, 100 * i + 50, 10);
    NoteTask(&log, 1, 100 * i, 100 * i + 20 + i, 0);
    log.learner(1)->Note(Activity::kAverage, 100 * i * kMilli, (100 * i + 5) * kMilli);
    log.EndRun((100 * i + 50) * kMilli, "run", 32, NameOfVariable);
  }
  const ActivityLog::Figures figures = log.figures();
  EXPECT_EQ(figures.runs, 3);
  EXPECT_EQ(figures.samples, 96);
  EXPECT_NEAR(figures.seconds, 0.250, 1e-9);
  EXPECT_NEAR(figures.in_runs, 0.150, 1e-9);
  EXPECT_EQ(figures.learners[0].tasks, 3);
  EXPECT_NEAR(figures.learners[0].task.median, 0.040, 1e-9);
  EXPECT_NEAR(figures.learners[0].wait.p95, 0.010, 1e-9);
  EXPECT_NEAR(figures.learners[1].task.median, 0.021, 1e-9);
  EXPECT_NEAR(figures.learners[1].task.p95, 0.022, 1e-9);
  EXPECT_NEAR(figures.learners[1].wait.median, 0.029, 1e-9);
  EXPECT_NEAR(figures.learners[1].wait.p95, 0.030, 1e-9);
  // Waits: 3 × 10 and 30 + 29 + 28; averages: 3 × 5; all: 2 × 3 × 50.
  EXPECT_NEAR(figures.synchronisation, (30 + 87 + 15) / 300.0, 1e-9);
}

TEST(ActivityLog, ForgetsWhatIsOld) {
  ActivityLog log;
  log.SetLearners(1);
  const int runs = ActivityLog::kWindow + 10;
  for (int i = 0; i < runs; ++i) {
    log.BeginRun(i * kMilli);
    NoteTask(&log, 0, i, i + (i < 10 ? 100 : 1), 0);
    log.EndRun((i + (i < 10 ? 100 : 1)) * kMilli, "run", 1, NameOfVariable);
  }
  const ActivityLog::Figures figures = log.figures();
  EXPECT_EQ(figures.runs, ActivityLog::kWindow);
  EXPECT_EQ(figures.samples, ActivityLog::kWindow);
  EXPECT_EQ(figures.learners[0].tasks, runs);
  EXPECT_NEAR(figures.learners[0].task.p95, 0.001, 1e-9);
  EXPECT_NEAR(figures.seconds, 0.001 * ActivityLog::kWindow, 1e-9);

  log.SetLearners(2);
  EXPECT_EQ(log.figures().runs, 0);
  EXPECT_EQ(log.figures().learners[0].tasks, 0);
}

TEST(ActivityLog, TracesWhatHappensBetweenStartAndStop) {
  ActivityLog log;
  log.SetLearners(2);
  log.Mark("too early", 0, 1);
  EXPECT_TRUE(log.StartTrace(10 * kMilli));
  EXPECT_FALSE(log.StartTrace(11 * kMilli));
  log.Mark("com\"pile", 5 * kMilli, 12 * kMilli);  // started earlier
  log.BeginRun(20 * kMilli);
  EXPECT_TRUE(log.recording());
  NoteTask(&log, 0, 20, 30, 4);
  log.learner(0)->Note(Activity::kUpdate, 26 * kMilli, 26 * kMilli + 1500, 1);
  log.learner(0)->Note(Activity::kCorrect, 27 * kMilli, 28 * kMilli);
  NoteTask(&log, 1, 20, 25, 0);
  log.EndRun(30 * kMilli, "run a", 32, NameOfVariable);
  log.SetLearners(1);
  const std::string json = log.StopTrace()->Json();
  const auto has = [&](const std::string& text) {
    return json.find(text) != std::string::npos;
  };
  EXPECT_FALSE(has("too early"));
  EXPECT_TRUE(has(R"("tid": 0, "name": "com\"pile", "ts": 0.000, "dur": 2000.000)"));
  EXPECT_TRUE(has(R"("tid": 0, "name": "run a", "ts": 10000.000, "dur": 10000.000)"));
  EXPECT_TRUE(has(R"("tid": 1, "name": "task 0", "ts": 10000.000, "dur": 10000.000)"));
  EXPECT_TRUE(has(R"("tid": 1, "name": "wait", "ts": 10000.000, "dur": 4000.000)"));
  EXPECT_TRUE(has(R"("tid": 1, "name": "update w", "ts": 16000.000, "dur": 1.500)"));
  EXPECT_TRUE(has(R"("tid": 1, "name": "correct", "ts": 17000.000)"));
  EXPECT_TRUE(has(R"("tid": 2, "name": "wait", "ts": 15000.000, "dur": 5000.000)"));
  EXPECT_TRUE(has(R"("args": {"name": "learner 1"})"));

  log.BeginRun(40 * kMilli);
  EXPECT_FALSE(log.recording());
  NoteTask(&log, 0, 40, 50, 0);
  EXPECT_TRUE(log.learner(0)->events().empty());
}

TEST(Trace, CountsWhatIsTooMuch) {
  Trace trace(0, /*most_events=*/2);
  const int event = trace.Number("event");
  EXPECT_EQ(trace.Number("event"), event);
  for (int i = 0; i < 5; ++i) trace.Add(0, event, i, i + 1);
  const std::string json = trace.Json();
  EXPECT_NE(json.find("\"dropped\": 3"), std::string::npos);
  EXPECT_EQ(json.find("\"ts\": 0.002"), std::string::npos);
}

}  // namespace
}  // namespace tensorbow
