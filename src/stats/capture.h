/* The choices that a captured graph holds. */
#ifndef MD_STATS_CAPTURE_H
#define MD_STATS_CAPTURE_H

#include "dispatch/op.h"

/** Lists the kernels of the runtime's ops in a graph (NULL: the graph that the stream is captured into), with variant,
 * shape and count, as a table or as one JSON object. Shapes are read from the parameters in the graph. UNSUPPORTED if
 * the device has no graphs. */
md_status md_ss_capture(md_strbuf *out, md_ds_runtime *runtime, md_stream stream, void *graph, bool json);

#endif
