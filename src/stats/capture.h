/* What a captured graph holds: the choices that were baked into it. */
#ifndef MD_STATS_CAPTURE_H
#define MD_STATS_CAPTURE_H

#include "dispatch/types.h"

/** Kernels of the runtime's ops in a graph (NULL: in the one that the stream is being captured into), with variant,
 * shape and how often; as a table or one JSON object. Shapes are read from the parameters in the graph. UNSUPPORTED
 * where the device has no graphs. */
md_status md_ss_capture(md_strbuf *out, md_ds_runtime *runtime, md_stream stream, void *graph, bool json);

#endif
