/* Lists the kernels of a graph, and makes and launches the library's own. The runtime's cudaGraphKernelNodeGetParams
 * fails for kernels of libraries (CUDA 13.0: cudaErrorInvalidDeviceFunction), so the driver's function is used. */
#include "device/cuda/internal.h"

#include "base/status.h"

#include <stdlib.h>

/* CUDA_KERNEL_NODE_PARAMS of CUDA 12.0. Declared here, so that the driver's header is not needed. */
typedef struct node_params {
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    const void *kernel; /* the handle from cudaLibraryGetKernel */
    void *context;
    void *later[4];
} node_params;
typedef int (*get_params_fn)(cudaGraphNode_t node, node_params *out);

typedef struct walk {
    md_dev_cuda *dev;
    get_params_fn get_params;
    md_dev_visit_kernel visit;
    void *user;
} walk;

static md_status walk_graph(const walk *w, cudaGraph_t graph);

static md_status walk_node(const walk *w, cudaGraphNode_t node)
{
    enum cudaGraphNodeType type;
    MD_CUDA_TRY(w->dev, cudaGraphNodeGetType(node, &type), "looking into a graph");
    if (type == cudaGraphNodeTypeGraph) {
        cudaGraph_t child;
        MD_CUDA_TRY(w->dev, cudaGraphChildGraphNodeGetGraph(node, &child), "looking into a graph");
        return walk_graph(w, child);
    }
    node_params p = {0};
    if (type == cudaGraphNodeTypeKernel && w->get_params(node, &p) == 0)
        w->visit(w->user, p.kernel, p.params ? p.params[0] : NULL);
    else if (type == cudaGraphNodeTypeKernel)
        w->visit(w->user, NULL, NULL);
    return MD_OK;
}

static md_status walk_graph(const walk *w, cudaGraph_t graph)
{
    size_t n = 0;
    MD_CUDA_TRY(w->dev, cudaGraphGetNodes(graph, NULL, &n), "looking into a graph");
    cudaGraphNode_t *nodes = malloc((n + 1) * sizeof *nodes);
    if (!nodes)
        return md_fail_memory();
    md_status s = md_dev_cuda_result(w->dev, cudaGraphGetNodes(graph, nodes, &n), "looking into a graph");
    for (size_t i = 0; i < n && s == MD_OK; i++)
        s = walk_node(w, nodes[i]);
    free(nodes);
    return s;
}

static md_status graph_of(cudaGraph_t *out, md_dev_cuda *dev, cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id;
#if CUDART_VERSION >= 13000
    MD_CUDA_TRY(dev, cudaStreamGetCaptureInfo(stream, &status, &id, out, NULL, NULL, NULL),
                "asking whether a stream is captured");
#else
    MD_CUDA_TRY(dev, cudaStreamGetCaptureInfo_v2(stream, &status, &id, out, NULL, NULL),
                "asking whether a stream is captured");
#endif
    return status == cudaStreamCaptureStatusActive
               ? MD_OK
               : md_fail(MD_INVALID_ARGUMENT, "the stream is not being captured, and no graph was given");
}

const void *md_dev_cuda_handle(const md_dev_kernel *kernel)
{
    return (const void *)((const md_dev_cuda_kernel *)kernel)->kernel;
}

md_status md_dev_cuda_graph_kernels(md_dev *base, md_stream stream, void *graph, md_dev_visit_kernel visit, void *user)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    void *f = NULL;
    cudaGraph_t g = graph;
    enum cudaDriverEntryPointQueryResult found;
    if (!g)
        MD_TRY(graph_of(&g, dev, (cudaStream_t)stream));
    MD_CUDA_TRY(dev,
                cudaGetDriverEntryPointByVersion("cuGraphKernelNodeGetParams", &f, 12000, cudaEnableDefault, &found),
                "asking the driver for a function");
    if (!f)
        return md_fail(MD_UNSUPPORTED, "this driver does not say what kernels a graph holds");
    return walk_graph(&(walk){dev, (get_params_fn)(uintptr_t)f, visit, user}, g);
}

/* ---- Graphs of the library's own: work captured on a stream for that, updated in place where the topology of the
 * kernels stays. The caller orders calls about one graph. */

typedef struct graph {
    cudaStream_t stream; /* only for capturing */
    cudaGraphExec_t exec;
} graph;

static md_status make(graph **out, md_dev_cuda *dev)
{
    graph *g = calloc(1, sizeof *g);
    if (!g)
        return md_fail_memory();
    const cudaError_t error = cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) {
        free(g);
        return md_dev_cuda_result(dev, error, "making a stream for a graph");
    }
    *out = g;
    return MD_OK;
}

static void destroy(md_dev_cuda *dev, graph *g)
{
    if (g->exec)
        (void)md_dev_cuda_result(dev, cudaGraphExecDestroy(g->exec), "freeing a graph");
    (void)md_dev_cuda_result(dev, cudaStreamDestroy(g->stream), "freeing a graph's stream");
    free(g);
}

static md_status capture(cudaGraph_t *out, md_dev_cuda *dev, cudaStream_t stream,
                         md_status (*body)(void *user, md_stream stream), void *user)
{
    MD_CUDA_TRY(dev, cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "beginning a capture");
    const md_status status = body(user, (md_stream)stream);
    const cudaError_t error = cudaStreamEndCapture(stream, out);
    if (status == MD_OK && error == cudaSuccess)
        return MD_OK;
    if (error == cudaSuccess)
        (void)cudaGraphDestroy(*out);
    else
        (void)cudaGetLastError();
    return status != MD_OK ? status : md_dev_cuda_result(dev, error, "capturing a sequence");
}

/* Where the old graph cannot be updated, a new one replaces it. Work of the old one that is under way ends first. */
static md_status put(graph *g, bool *is_updated, md_dev_cuda *dev, cudaGraph_t captured)
{
    cudaGraphExec_t exec = NULL;
    *is_updated = false;
    if (g->exec) {
        cudaGraphExecUpdateResultInfo info;
        *is_updated = cudaGraphExecUpdate(g->exec, captured, &info) == cudaSuccess;
        if (*is_updated)
            return MD_OK;
        (void)cudaGetLastError();
    }
    MD_CUDA_TRY(dev, cudaGraphInstantiate(&exec, captured, 0), "making a graph");
    if (g->exec)
        (void)cudaGraphExecDestroy(g->exec);
    g->exec = exec;
    return MD_OK;
}

md_status md_dev_cuda_graph_make(md_dev_graph **out, bool *is_updated, md_dev *base,
                                 md_status (*body)(void *user, md_stream stream), void *user)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    cudaGraph_t captured = NULL;
    graph *g = (graph *)*out;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    md_status status = g ? MD_OK : make(&g, dev);
    if (status == MD_OK)
        status = capture(&captured, dev, g->stream, body, user);
    if (status == MD_OK) {
        status = put(g, is_updated, dev, captured);
        (void)cudaGraphDestroy(captured);
    }
    if (status != MD_OK && g && !*out)
        destroy(dev, g);
    if (status == MD_OK)
        *out = (md_dev_graph *)g;
    md_dev_cuda_leave(&scope);
    return status;
}

md_status md_dev_cuda_graph_launch(md_dev *base, md_dev_graph *made, md_stream stream)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    const graph *g = (const graph *)made;
    if (dev->is_only && !dev->lost) {
        MD_CUDA_TRY(dev, cudaGraphLaunch(g->exec, (cudaStream_t)stream), "launching a graph");
        return MD_OK;
    }
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    const cudaError_t error = cudaGraphLaunch(g->exec, (cudaStream_t)stream);
    md_dev_cuda_leave(&scope);
    return md_dev_cuda_result(dev, error, "launching a graph");
}

void md_dev_cuda_graph_destroy(md_dev *base, md_dev_graph *made)
{
    md_dev_cuda_scope scope;
    if (md_dev_cuda_enter(&scope, (md_dev_cuda *)base) != MD_OK) {
        free(made); /* the device is lost, or belongs to the parent process */
        return;
    }
    destroy((md_dev_cuda *)base, (graph *)made);
    md_dev_cuda_leave(&scope);
}
