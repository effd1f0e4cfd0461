#include "compare/html/page.h"

#include "compare/html/assets.h"
#include "compare/html/observation_json.h"
#include "compare/origin_lines.h"
#include "compare/report_lines.h"
#include "core/key.h"
#include "core/text.h"

namespace tdump::compare::html {
namespace {

using Write = std::function<void(std::string_view)>;

constexpr size_t kPiece = 128 * 1024;

Json SideJson(const SideInfo& side) {
  Json holes = Json::array();
  for (const std::string& hole : side.holes) holes.push_back(ShownText(hole));
  return {{"label", ShownText(side.label)},
          {"address", AddressOf(side)},
          {"world", side.world},
          {"holes", std::move(holes)}};
}

Json CountsJson(const Counts& c) {
  return {{"paired", c.paired},
          {"bitwise_equal", c.bits_equal},
          {"failing", c.failing},
          {"unpaired_a", c.unpaired_a},
          {"unpaired_b", c.unpaired_b},
          {"differing", {{"shape", c.shape}, {"dtype", c.dtype}, {"special", c.special}}}};
}

Json MapJson(const LayerMap& map) {
  Json layers = Json::array();
  for (const std::string& layer : map.layers()) layers.push_back(ShownName(layer));
  LayerMap::Axis ranks = map.ByRank(), steps = map.ByStep();
  return {{"layers", std::move(layers)},
          {"ranks", std::move(ranks.columns)},
          {"by_rank", std::move(ranks.cells)},
          {"steps", std::move(steps.columns)},
          {"by_step", std::move(steps.cells)}};
}

Json GridJson(const PlacedGrid& placed) {
  const ErrorGrid& grid = placed.grid;
  Json values = Json::array();
  for (const double value : grid.max_abs) values.push_back(ShownNumber(value));
  return {{"step", std::to_string(placed.step)},
          {"rank", RankName(placed.rank)},
          {"dimensions", grid.dimensions},
          {"height", grid.height},
          {"width", grid.width},
          {"rows", grid.rows},
          {"columns", grid.columns},
          {"values", std::move(values)}};
}

Json GridsJson(const PageInput& input) {
  Json grids = Json::array();
  if (input.grids == nullptr) return grids;
  for (const PlacedGrid* placed : input.grids->OnePerKey()) {
    Json grid = GridJson(*placed);
    grid["observation"] = input.data->IndexOf(placed->key);
    grids.push_back(std::move(grid));
  }
  return grids;
}

Json OriginJson(const PageInput& input) {
  if (!input.report->origin) return nullptr;
  const Origin& origin = *input.report->origin;
  Json lines = Json::array();
  for (const std::string& line : OriginLines(origin, input.report->across)) lines.push_back(line);
  if (input.report->beyond_drift)
    lines.push_back("also " + OriginTitle(*input.report->beyond_drift) +
                    ": weights that parted by rounding do not make it");
  Json json = {{"title", OriginTitle(origin)},
               {"lines", std::move(lines)},
               {"step", std::to_string(origin.step)},
               {"observation", -1},
               {"command", ""},
               {"grid", nullptr}};
  if (!origin.row) return json;
  const Row& row = *origin.row;
  const std::string key = ToText(row.key);
  json["observation"] = input.data->IndexOf(key);
  json["command"] = ViewCommand(input.b, row);
  if (input.grids != nullptr) {
    if (const PlacedGrid* grid = input.grids->Find(key, row.step_b, row.rank_b))
      json["grid"] = GridJson(*grid);
  }
  return json;
}

Json FactsJson(const PageInput& input) {
  Json facts = Json::array();
  for (const SideInfo* side : {&input.a, &input.b}) {
    std::string text = Printable(side->label);
    if (const std::string about = SideText(*input.report, *side, side == &input.a); !about.empty())
      text += "   " + about;
    for (const std::string& hole : side->holes) text += "\nmissing: " + Printable(hole);
    facts.push_back({side == &input.a ? "A" : "B", std::move(text)});
  }
  for (const Fact& fact : Facts(*input.report)) facts.push_back({fact.name, fact.text});
  return facts;
}

// Everything but the observations.
Json HeadJson(const PageInput& input) {
  const DiffReport& report = *input.report;
  Json head = {{"version", TDUMP_VERSION},
               {"verdict", ToString(report.overall)},
               {"summary", RenderVerdict(report, input.required_bits)},
               {"a", SideJson(input.a)},
               {"b", SideJson(input.b)},
               {"counts", CountsJson(report.counts)},
               {"facts", FactsJson(input)},
               {"origin", OriginJson(input)},
               {"grids", GridsJson(input)},
               {"map", MapJson(input.data->map())}};
  head["steps"] = Json::array();
  for (const uint64_t step : input.data->steps()) head["steps"].push_back(std::to_string(step));
  head["unpaired"] = Json::array();
  for (const Unpaired& unpaired : input.data->unpaired())
    head["unpaired"].push_back(UnpairedLine(unpaired));
  head["notes"] = Json::array();
  for (const std::string& note : report.notes) head["notes"].push_back(ShownText(note));
  head["damage"] = Json::array();
  for (const io::Damage& damage : report.damage) head["damage"].push_back(DamageText(damage));
  return head;
}

// {..., "observations": {...}, "bounds": [...]}: rows one by one, they are most of the page.
void WriteData(const PageInput& input, const Write& write) {
  std::string piece = EmbeddedJson(HeadJson(input));
  piece.pop_back();
  piece += ",\"observations\":{\"left_out\":" + std::to_string(input.data->left_out()) +
           ",\"columns\":" + EmbeddedJson(ObservationColumns()) +
           ",\"metrics\":" + EmbeddedJson(MetricsColumns()) + ",\"rows\":[";
  BoundTexts bounds;
  bool first = true;
  for (const Observation& observation : input.data->observations()) {
    piece += (first ? "\n" : ",\n") + EmbeddedJson(ObservationJson(observation, &bounds));
    first = false;
    if (piece.size() < kPiece) continue;
    write(piece);
    piece.clear();
  }
  piece += "]},\"bounds\":" + EmbeddedJson(Json(bounds.texts())) + "}";
  write(piece);
}

}  // namespace

void WritePage(const PageInput& input, const std::function<void(std::string_view)>& write) {
  std::string_view page = assets::page_html;
  const auto until = [&](std::string_view mark) {
    const size_t at = page.find(mark);
    write(page.substr(0, at));
    page.remove_prefix(at + mark.size());
  };
  until("@CSS@");
  write(assets::page_css);
  until("@DATA@");
  WriteData(input, write);
  until("@JS@");
  for (const std::string_view script :
       {assets::dom_js, assets::data_js, assets::heat_js, assets::detail_js, assets::table_js,
        assets::map_js, assets::curve_js, assets::page_js})
    write(script);
  write(page);
}

}  // namespace tdump::compare::html
