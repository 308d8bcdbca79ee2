// A roofline (Williams, Waterman and Patterson, 2009): how many operations a
// second against how many operations per byte, under the ceilings of device
// memory and of the MMA. Both axes are logarithmic. Pure functions.
#ifndef HONE_SERVICE_CLI_ROOFLINE_H_
#define HONE_SERVICE_CLI_ROOFLINE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace hone {

struct Roofline {
  // One measured M.
  struct Point {
    int64_t m = 0;
    // Operations per byte that must move at least.
    double intensity = 0;
    // 10^12 operations a second.
    double tflops = 0;
  };

  std::string title;
  std::string subtitle;
  // Whether the points are of a modelled device.
  bool modelled = false;
  // What the operations are called, "TFLOP/s" or "TOP/s".
  std::string unit = "TFLOP/s";
  // The ceilings.
  double memory_gbps = 0;
  double tflops = 0;
  // By rising M; at least one.
  std::vector<Point> points;

  // The ceiling at an intensity.
  double Ceiling(double intensity) const;
  // The intensity where both ceilings meet.
  double Ridge() const { return tflops * 1e3 / memory_gbps; }
};

// A logarithmic axis between two values of the series 1, 2, 5, 10, 20, ...
struct LogAxis {
  double low = 1;
  double high = 10;

  // The shortest one with room around `least` and `most`, both above 0.
  static LogAxis Around(double least, double most);
  // 0 at low, 1 at high.
  double Share(double value) const;
  // The values of the series from low to high.
  std::vector<double> Ticks() const;
};

struct RooflineAxes {
  LogAxis intensity;
  LogAxis tflops;
};
// Show every point and the ridge.
RooflineAxes AxesOf(const Roofline& roofline);

// The plotting area of RooflineSvg's image, pixels from the upper left corner.
struct RooflineFrame {
  double left = 76;
  double top = 72;
  double right = 936;
  double bottom = 540;
  double width = 960;
  double height = 600;
};

// An SVG image; light or dark as the viewer prefers.
std::string RooflineSvg(const Roofline& roofline);

// The same in plain characters, for a terminal. Each M has a letter.
std::string RooflinePlot(const Roofline& roofline);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_ROOFLINE_H_
