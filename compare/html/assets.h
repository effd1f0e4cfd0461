// The files of assets/, as the build puts them into the library (cmake/EmbedText.cmake).
#pragma once

#include <string_view>

namespace tdump::compare::html::assets {

extern const std::string_view page_html, page_css;
extern const std::string_view dom_js, data_js, heat_js, detail_js, table_js, map_js, curve_js,
    page_js;

}  // namespace tdump::compare::html::assets
