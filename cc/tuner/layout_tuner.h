// Chooses the number of learners, and the threads of each, by measuring the user's own
// learning runs. Nothing is executed for the measurement.
//
// A layout is measured in windows (run_window.h). The first window after a change does
// not count, since it compiles and fills caches; the median of the following ones is
// the layout's throughput. A layout that comes near the best layout's throughput in no
// ten runs is given up earlier. A LayoutSearch chooses the next layout. The layout in
// use when tuning starts is measured first, which needs no change. In the end the tuner
// settles on the best layout.
//
// Tuning starts again after several windows in a row with the same reason: the settled
// layout's throughput differs by more than `regime_change`, or other programs take the
// time. The number of these windows doubles each time and halves again after a calm
// time. So a machine or a program that keeps changing is tuned ever more rarely.
//
// The result is confirmed: another program may have disturbed the measurement of one
// layout and not that of another, which the settled layout's throughput never shows.
// The tuning is repeated after ten times as many windows as it took, then after twenty
// times as many, and so on.
//
// Thread-compatible: the caller serialises calls. Ran() costs some nanoseconds and
// allocates nothing, except at the end of a window of a layout on trial.
#ifndef TENSORBOW_CC_TUNER_LAYOUT_TUNER_H_
#define TENSORBOW_CC_TUNER_LAYOUT_TUNER_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cc/tuner/layout_search.h"
#include "cc/tuner/run_window.h"

namespace tensorbow {

class LayoutTuner {
 public:
  struct Settings {
    // The minimum of a window: seconds inside runs, and runs.
    double window_seconds = 0.5;
    int64_t window_runs = 10;
    int windows = 3;              // windows measured per layout
    double regime_change = 0.25;  // as a share of the settled layout's throughput
    int patience = 3;             // windows in a row that restart the tuning
  };

  struct Measurement {
    Layout layout;
    double samples_per_second;  // of the median window; 0 if skipped
    double spread;              // from the slowest window to the fastest, by the median
    std::string note;           // "", "skipped: <why>" or "again: <why>"
    bool chosen;                // the tuner settled on it
  };

  // `first` is the layout in use, which works.
  LayoutTuner(const Settings& settings, std::unique_ptr<LayoutSearch> search,
              const Layout& first);

  // Returns the layout to use now.
  const Layout& layout() const { return layout_; }
  bool settled() const { return settled_; }

  // Records that a run of `program` (the graph with its number of rows) trained
  // `samples` rows in `seconds` with layout(). The seconds are those of the run alone:
  // the time between runs is the same for every layout, so it would only blur the
  // comparison. Runs without samples or time do not count. Returns the layout to change
  // to now, if any.
  std::optional<Layout> Ran(uint64_t program, int64_t samples, double seconds);

  // Records that layout() failed, for example for lack of memory. As many learners or
  // more are never tried again. Returns the layout to use instead: `first` if no other
  // is left.
  Layout Failed(const std::string& why);

  // Returns every layout measured or skipped, in order. A layout measured again during
  // the same tuning stands at its first place.
  const std::vector<Measurement>& log() const { return log_; }

 private:
  // Adds a run to those of the layout on trial; returns whether the layout is hopeless.
  bool AddToTrial(uint64_t program, int64_t samples, double seconds);
  std::optional<Layout> EndTrial();
  std::optional<Layout> EndWindow(RunWindow::State state);
  bool RegimeChanged(double rate) const;
  void TuneAgain(std::optional<uint64_t> program, std::string why);
  // Starts tuning again, for the reason given: earlier measurements do not count any
  // more, and the layout in use is measured first.
  void Restart(std::string why);
  // Moves to the next layout, or settles. Returns whether layout() has changed.
  bool Advance();
  void Try(const Layout& layout);
  void Settle();
  void Record();
  void Take(const Layout& layout);

  const Settings settings_;
  const std::unique_ptr<LayoutSearch> search_;
  const Layout first_;

  Layout layout_;
  bool settled_ = false;
  int limit_ = std::numeric_limits<int>::max();  // least number that failed
  std::vector<Trial> trials_;                    // measured during this tuning
  Trial trial_;                                  // of layout_, while it is measured
  size_t goal_ = 0;                              // the number of windows it needs
  int64_t trial_runs_ = 0;                       // since the change to layout_
  double trial_seconds_ = 0;                     // in these runs
  int64_t block_runs_ = 0;                       // the last of these runs
  double block_samples_ = 0, block_seconds_ = 0;
  double fastest_ = 0;     // samples per second of a block
  std::string why_again_;  // for the next entry of log_

  RunWindow window_;
  bool started_ = false;  // the first run's program is watched
  bool warm_ = false;     // the first window with layout_ is over
  double expected_ = 0;   // samples per second of the settled layout; 0 if unknown
  int64_t patience_;      // windows in a row that restart the tuning
  int64_t strange_ = 0;   // windows in a row that are a reason to tune again
  int64_t calm_ = 0;      // windows in a row that are not

  int64_t tuning_windows_ = 0;  // windows of this tuning, or of the last one
  int64_t confirm_after_;       // the next confirmation, as a multiple of these windows
  int64_t confirm_in_ = 0;      // windows of the settled layout until then

  std::vector<Measurement> log_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TUNER_LAYOUT_TUNER_H_
