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
typedef int (*set_params_fn)(cudaGraphExec_t exec, cudaGraphNode_t node, const node_params *params);

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

/* ---- Graphs of the library's own: work captured on a stream for that. The nodes of a chain of kernels are changed one
 * by one, others by updating all. The caller orders calls about one graph. */

typedef struct graph {
    cudaGraph_t captured; /* its nodes are what those of `exec` are named by, to change them */
    cudaGraphExec_t exec;
    cudaGraphNode_t *node; /* kernels in the order of their launches; NULL: it is no chain of kernels */
    int32_t n, n_early;
    set_params_fn set_params;
} graph;

/* What comes after a node: how many nodes, and the first of them. */
static cudaError_t find_next(cudaGraphNode_t node, cudaGraphNode_t *next, size_t *n, bool *is_early)
{
    cudaGraphNode_t list[2] = {NULL, NULL};
    cudaError_t error;
    *n = 2;
    *is_early = false;
#if CUDART_VERSION >= 12030
    cudaGraphEdgeData edge[2] = {{0}};
#if CUDART_VERSION >= 13000
    error = cudaGraphNodeGetDependentNodes(node, list, edge, n);
#else
    error = cudaGraphNodeGetDependentNodes_v2(node, list, edge, n);
#endif
    *is_early = edge[0].type == cudaGraphDependencyTypeProgrammatic;
#else
    error = cudaGraphNodeGetDependentNodes(node, list, n);
#endif
    *next = list[0];
    return error;
}

static bool is_kernel(cudaGraphNode_t node)
{
    enum cudaGraphNodeType type;
    return cudaGraphNodeGetType(node, &type) == cudaSuccess && type == cudaGraphNodeTypeKernel;
}

/* Follows the chain from its root. False if it is none. */
static bool follow(graph *g, size_t n)
{
    size_t n_next = 1;
    cudaGraphNode_t at = NULL;
    if (cudaGraphGetRootNodes(g->captured, NULL, &n_next) != cudaSuccess || n_next != 1 ||
        cudaGraphGetRootNodes(g->captured, &at, &n_next) != cudaSuccess)
        return false;
    for (size_t i = 0; i < n; i++) {
        bool is_early;
        if (!at || !is_kernel(at))
            return false;
        g->node[i] = at;
        if (find_next(at, &at, &n_next, &is_early) != cudaSuccess || n_next > 1)
            return false;
        g->n_early += is_early;
    }
    return !at;
}

static void list_chain(graph *g)
{
    size_t n = 0;
    g->n = g->n_early = 0;
    if (cudaGraphGetNodes(g->captured, NULL, &n) == cudaSuccess && n > 0 && n < INT32_MAX) {
        g->n = (int32_t)n;
        g->node = malloc(n * sizeof *g->node);
    }
    if (g->node && !follow(g, n)) {
        free(g->node);
        g->node = NULL;
    }
    (void)cudaGetLastError();
}

static void destroy(md_dev_cuda *dev, graph *g)
{
    if (g->exec)
        (void)md_dev_cuda_result(dev, cudaGraphExecDestroy(g->exec), "freeing a graph");
    if (g->captured)
        (void)cudaGraphDestroy(g->captured);
    free(g->node);
    free(g);
}

static md_status capture(cudaGraph_t *out, md_dev_cuda *dev, md_status (*body)(void *user, md_stream stream),
                         void *user)
{
    if (!dev->capturing)
        MD_CUDA_TRY(dev, cudaStreamCreateWithFlags(&dev->capturing, cudaStreamNonBlocking),
                    "making a stream for graphs");
    MD_CUDA_TRY(dev, cudaStreamBeginCapture(dev->capturing, cudaStreamCaptureModeRelaxed), "beginning a capture");
    const md_status status = body(user, (md_stream)dev->capturing);
    const cudaError_t error = cudaStreamEndCapture(dev->capturing, out);
    if (status == MD_OK && error == cudaSuccess)
        return MD_OK;
    if (error == cudaSuccess)
        (void)cudaGraphDestroy(*out);
    else
        (void)cudaGetLastError();
    return status != MD_OK ? status : md_dev_cuda_result(dev, error, "capturing a sequence");
}

/* The graph owns `captured` from now on, or nothing has changed. Where the old one cannot be updated, a new one
 * replaces it; work of the old one that is under way ends first. */
static md_status put(graph *g, bool *is_updated, md_dev_cuda *dev, cudaGraph_t captured)
{
    cudaGraphExec_t exec = NULL;
    *is_updated = false;
    if (g->exec) {
        cudaGraphExecUpdateResultInfo info;
        *is_updated = cudaGraphExecUpdate(g->exec, captured, &info) == cudaSuccess;
        if (*is_updated) {
            (void)cudaGraphDestroy(captured); /* the nodes of the first one still name those of `exec` */
            return MD_OK;
        }
        (void)cudaGetLastError();
    }
    MD_CUDA_TRY(dev, cudaGraphInstantiate(&exec, captured, 0), "making a graph");
    if (g->exec)
        (void)cudaGraphExecDestroy(g->exec);
    if (g->captured)
        (void)cudaGraphDestroy(g->captured);
    free(g->node);
    g->node = NULL;
    g->exec = exec;
    g->captured = captured;
    list_chain(g);
    return MD_OK;
}

static void upload(md_dev_cuda *dev, const graph *g)
{
    if (cudaGraphUpload(g->exec, dev->capturing) != cudaSuccess)
        (void)cudaGetLastError(); /* the first launch uploads it */
}

static md_status make(graph **out, bool *is_updated, md_dev_cuda *dev, md_status (*body)(void *user, md_stream stream),
                      void *user)
{
    cudaGraph_t captured = NULL;
    graph *g = *out ? *out : calloc(1, sizeof *g);
    if (!g)
        return md_fail_memory();
    md_status status = capture(&captured, dev, body, user);
    if (status == MD_OK) {
        status = put(g, is_updated, dev, captured);
        if (status != MD_OK)
            (void)cudaGraphDestroy(captured);
    }
    if (status != MD_OK) {
        if (!*out)
            destroy(dev, g);
        return status;
    }
    g->set_params = (set_params_fn)md_dev_cuda_driver_function("cuGraphExecKernelNodeSetParams");
    upload(dev, g);
    *out = g;
    return MD_OK;
}

md_status md_dev_cuda_graph_make(md_dev_graph **out, bool *is_updated, md_dev *base,
                                 md_status (*body)(void *user, md_stream stream), void *user)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    graph *g = (graph *)*out;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    pthread_mutex_lock(&dev->graph_lock);
    const md_status status = make(&g, is_updated, dev, body, user);
    pthread_mutex_unlock(&dev->graph_lock);
    if (status == MD_OK)
        *out = (md_dev_graph *)g;
    md_dev_cuda_leave(&scope);
    return status;
}

void md_dev_cuda_graph_facts(md_dev_graph_facts *out, const md_dev_graph *made)
{
    const graph *g = (const graph *)made;
    *out = (md_dev_graph_facts){g->n, g->n_early, g->node && g->set_params};
}

static md_status change_one(const graph *g, const md_dev_graph_change *c)
{
    void *params[1] = {(void *)(uintptr_t)c->params.word};
    const md_kn_geometry *geometry = c->geometry;
    node_params p = {.shared_bytes = (unsigned)geometry->scratch_bytes,
                     .params = params,
                     .kernel = ((const md_dev_cuda_kernel *)c->kernel)->kernel};
    for (int i = 0; i < 3; i++) {
        p.grid[i] = (unsigned)geometry->grid[i];
        p.block[i] = (unsigned)geometry->block[i];
    }
    if (c->at < 0 || c->at >= g->n || !g->node || !g->set_params)
        return md_fail(MD_UNSUPPORTED, "the graph has no kernel %d that can be changed", (int)c->at);
    const int error = g->set_params(g->exec, g->node[c->at], &p);
    return error == 0 ? MD_OK : md_fail(MD_DEVICE, "changing kernel %d of a graph: error %d", (int)c->at, error);
}

md_status md_dev_cuda_graph_change(md_dev *base, md_dev_graph *made, const md_dev_graph_change *change, int32_t n,
                                   bool uploads)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    md_status status = MD_OK;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    for (int32_t i = 0; i < n && status == MD_OK; i++)
        status = change_one((const graph *)made, &change[i]);
    if (uploads && status == MD_OK) {
        pthread_mutex_lock(&dev->graph_lock); /* nobody captures on the stream meanwhile */
        upload(dev, (const graph *)made);
        pthread_mutex_unlock(&dev->graph_lock);
    }
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
