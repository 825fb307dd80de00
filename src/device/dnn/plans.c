/* What cuDNN is told of a convolution, and the plans that it makes for it. */
#include "device/dnn/internal.h"

#include "base/status.h"

#if MD_HAVE_CUDA

#include <stdlib.h>

/* Values of cudnn_graph.h. */
enum {
    TYPE_HANDLE = 0,
    TYPE_DATA = 1,
    TYPE_INT64 = 3,
    TYPE_FLOAT = 4,
    TYPE_POINTER = 6,
    TYPE_CONV = 7,
    TYPE_HEUR = 8,
    TYPE_NOTE = 11,
    TYPE_DESC = 15
};
enum { DATA_F32 = 0, DATA_F16 = 2, DATA_BF16 = 9 };
enum { CROSS_CORRELATION = 1, HEUR_MODE_A = 3 };
enum {
    CONVOLUTION = 1,
    ENGINE = 2,
    ENGINE_CONFIG = 3,
    HEURISTIC = 4,
    EXECUTION_PLAN = 5,
    CONVOLUTION_FORWARD = 10,
    CONVOLUTION_OF_FILTER = 11,
    GRAPH = 15,
    PACK = 16,
    TENSOR = 17
};
enum {
    CONV_TYPE = 100,
    CONV_MODE = 101,
    CONV_DILATIONS = 102,
    CONV_STRIDES = 103,
    CONV_BEHIND = 104,
    CONV_BEFORE = 105,
    CONV_AXES = 106
};
enum { HEUR_MODE = 200, HEUR_GRAPH = 201, HEUR_RESULTS = 202 };
enum { CONFIG_ENGINE = 300, ENGINE_NOTES = 1303 };
enum { PLAN_HANDLE = 400, PLAN_CONFIG = 401, PLAN_WORKSPACE = 402 };
enum { FORWARD_ALPHA = 700, FORWARD_BETA = 701, FORWARD_CONV = 702, FORWARD_W = 703, FORWARD_X = 704, FORWARD_Y = 705 };
enum { FILTER_ALPHA = 712, FILTER_BETA = 713, FILTER_CONV = 714, FILTER_W = 715, FILTER_X = 716, FILTER_Y = 717 };
/* Notes of an engine that computes f32 as it is written, up to the order of sums. */
enum { NOTE_NONDETERMINISTIC = 4, NOTE_NANS = 9, MOST_NOTES = 32 };
enum { GRAPH_HANDLE = 800, GRAPH_OPS = 801 };
enum { TENSOR_ALIGNMENT = 900, TENSOR_TYPE = 901, TENSOR_SIZES = 902, TENSOR_STRIDES = 903, TENSOR_ID = 906 };
enum { PACK_IDS = 1000, PACK_POINTERS = 1001, PACK_WORKSPACE = 1003 };

/* An attribute of a descriptor. */
typedef struct attribute {
    int name, type;
    int64_t n;
    const void *values;
} attribute;

/* A new descriptor with its attributes; NULL if the library refuses it. */
static void *make(md_dnn_answers *p, const md_dnn_functions *f, int type, const attribute *list, int n)
{
    void *desc = NULL;
    if (p->n_descs == MD_DNN_DESCS || f->desc_create(type, &desc))
        return NULL;
    p->desc[p->n_descs++] = desc;
    for (int i = 0; i < n; i++)
        if (f->desc_set(desc, list[i].name, list[i].type, list[i].n, list[i].values))
            return NULL;
    return f->desc_finalize(desc) ? NULL : desc;
}

static int type_of(int32_t dtype)
{
    return dtype == MD_BF16 ? DATA_BF16 : dtype == MD_F16 ? DATA_F16 : DATA_F32;
}

static void *make_tensor(md_dnn_answers *p, const md_dnn_functions *f, int32_t which)
{
    const md_dev_cuda_conv *c = &p->what;
    const int64_t id = which + 1, alignment = c->alignment[which];
    const int type = type_of(c->dtype);
    const attribute list[] = {{TENSOR_ID, TYPE_INT64, 1, &id},
                              {TENSOR_TYPE, TYPE_DATA, 1, &type},
                              {TENSOR_ALIGNMENT, TYPE_INT64, 1, &alignment},
                              {TENSOR_SIZES, TYPE_INT64, c->n_axes, c->size[which]},
                              {TENSOR_STRIDES, TYPE_INT64, c->n_axes, c->stride[which]}};
    return make(p, f, TENSOR, list, MD_COUNT(list));
}

static void *make_convolution(md_dnn_answers *p, const md_dnn_functions *f)
{
    const md_dev_cuda_conv *c = &p->what;
    const int64_t n = c->n_axes - 2;
    const int type = DATA_F32, mode = CROSS_CORRELATION;
    int64_t border[3], step[3], apart[3];
    for (int32_t i = 0; i < 3; i++) {
        border[i] = c->border[i];
        step[i] = c->step[i];
        apart[i] = c->apart[i];
    }
    const attribute list[] = {{CONV_AXES, TYPE_INT64, 1, &n},       {CONV_TYPE, TYPE_DATA, 1, &type},
                              {CONV_MODE, TYPE_CONV, 1, &mode},     {CONV_BEFORE, TYPE_INT64, n, border},
                              {CONV_BEHIND, TYPE_INT64, n, border}, {CONV_DILATIONS, TYPE_INT64, n, apart},
                              {CONV_STRIDES, TYPE_INT64, n, step}};
    return make(p, f, CONVOLUTION, list, MD_COUNT(list));
}

/* What the library calls an operation and its attributes. */
typedef struct operation {
    int type, alpha, beta, conv, image, filter, result;
} operation;
static const operation operations[] = {[MD_DEV_CUDA_CONV_FORWARD] = {CONVOLUTION_FORWARD, FORWARD_ALPHA, FORWARD_BETA,
                                                                     FORWARD_CONV, FORWARD_X, FORWARD_W, FORWARD_Y},
                                       [MD_DEV_CUDA_CONV_OF_FILTER] = {CONVOLUTION_OF_FILTER, FILTER_ALPHA, FILTER_BETA,
                                                                       FILTER_CONV, FILTER_X, FILTER_W, FILTER_Y}};

static void *make_graph(md_dnn_answers *p, const struct md_dev_cuda_dnn *dnn)
{
    const md_dnn_functions *f = &dnn->f;
    const operation *o = &operations[p->what.kind];
    const float one = 1, zero = 0;
    void *tensor[MD_DEV_CUDA_CONV_TENSORS], *conv = make_convolution(p, f);
    for (int32_t i = 0; i < MD_DEV_CUDA_CONV_TENSORS && conv; i++)
        if (!(tensor[i] = make_tensor(p, f, i)))
            return NULL;
    if (!conv)
        return NULL;
    const attribute list[] = {{o->conv, TYPE_DESC, 1, &conv},
                              {o->image, TYPE_DESC, 1, &tensor[MD_DEV_CUDA_CONV_IMAGE]},
                              {o->filter, TYPE_DESC, 1, &tensor[MD_DEV_CUDA_CONV_FILTER]},
                              {o->result, TYPE_DESC, 1, &tensor[MD_DEV_CUDA_CONV_RESULT]},
                              {o->alpha, TYPE_FLOAT, 1, &one},
                              {o->beta, TYPE_FLOAT, 1, &zero}};
    void *op = make(p, f, o->type, list, MD_COUNT(list));
    const attribute graph[] = {{GRAPH_HANDLE, TYPE_HANDLE, 1, &dnn->maker}, {GRAPH_OPS, TYPE_DESC, 1, &op}};
    return op ? make(p, f, GRAPH, graph, MD_COUNT(graph)) : NULL;
}

/* The configurations of the library's heuristic, best first; returns how many. */
static int64_t ask(void *config[MD_DNN_ANSWERS_F32], md_dnn_answers *p, const md_dnn_functions *f, void *graph)
{
    const int mode = HEUR_MODE_A;
    const int32_t most = p->what.dtype == MD_F32 ? MD_DNN_ANSWERS_F32 : MD_DNN_ANSWERS;
    int64_t n = 0;
    const attribute list[] = {{HEUR_GRAPH, TYPE_DESC, 1, &graph}, {HEUR_MODE, TYPE_HEUR, 1, &mode}};
    void *heuristic = make(p, f, HEURISTIC, list, MD_COUNT(list));
    for (int32_t i = 0; i < most && heuristic; i++) {
        if (p->n_descs == MD_DNN_DESCS || f->desc_create(ENGINE_CONFIG, &config[i]))
            return 0;
        p->desc[p->n_descs++] = config[i];
    }
    return !heuristic || f->desc_get(heuristic, HEUR_RESULTS, TYPE_DESC, most, &n, config) ? 0 : n;
}

/* True if the configuration's engine rounds nothing but results: no TF32, Fourier transforms or Winograd's. */
static bool is_exact(md_dnn_answers *p, const md_dnn_functions *f, void *config)
{
    void *engine = NULL;
    int note[MOST_NOTES];
    int64_t n = 0;
    if (p->n_descs == MD_DNN_DESCS || f->desc_create(ENGINE, &engine))
        return false;
    p->desc[p->n_descs++] = engine;
    if (f->desc_get(config, CONFIG_ENGINE, TYPE_DESC, 1, &n, &engine) ||
        f->desc_get(engine, ENGINE_NOTES, TYPE_NOTE, MOST_NOTES, &n, note))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (note[i] != NOTE_NONDETERMINISTIC && note[i] != NOTE_NANS)
            return false;
    return true;
}

md_dnn_answers *md_dnn_ask(const struct md_dev_cuda_dnn *dnn, const md_dev_cuda_conv *what, int64_t workspace_bytes)
{
    const md_dnn_functions *f = &dnn->f;
    md_dnn_answers *p = calloc(1, sizeof *p);
    void *config[MD_DNN_ANSWERS_F32];
    if (!p)
        return NULL;
    p->what = *what;
    void *graph = make_graph(p, dnn);
    const int64_t n = graph ? ask(config, p, f, graph) : 0;
    for (int64_t i = 0; i < n && p->n < MD_DEV_CUDA_CONV_RANKS; i++) {
        int64_t bytes = 0, found = 0;
        if (what->dtype == MD_F32 && !is_exact(p, f, config[i]))
            continue;
        const attribute list[] = {{PLAN_HANDLE, TYPE_HANDLE, 1, &dnn->maker}, {PLAN_CONFIG, TYPE_DESC, 1, &config[i]}};
        void *plan = make(p, f, EXECUTION_PLAN, list, MD_COUNT(list));
        if (plan && !f->desc_get(plan, PLAN_WORKSPACE, TYPE_INT64, 1, &found, &bytes) && bytes <= workspace_bytes)
            p->plan[p->n++] = plan;
    }
    return p;
}

void md_dnn_answers_free(md_dnn_answers *p, const md_dnn_functions *f)
{
    while (p->n_descs > 0)
        (void)f->desc_destroy(p->desc[--p->n_descs]);
    free(p);
}

int md_dnn_execute(const md_dnn_functions *f, void *handle, void *plan, md_stream stream,
                   void *const data[MD_DEV_CUDA_CONV_TENSORS], void *workspace)
{
    static const int64_t ids[MD_DEV_CUDA_CONV_TENSORS] = {1, 2, 3};
    md_dnn_answers made = {.n = 0};
    const attribute list[] = {{PACK_IDS, TYPE_INT64, MD_DEV_CUDA_CONV_TENSORS, ids},
                              {PACK_POINTERS, TYPE_POINTER, MD_DEV_CUDA_CONV_TENSORS, data},
                              {PACK_WORKSPACE, TYPE_POINTER, 1, &workspace}};
    int error = f->set_stream(handle, (cudaStream_t)stream);
    void *pack = error ? NULL : make(&made, f, PACK, list, MD_COUNT(list));
    error = error ? error : !pack ? -1 : f->execute(handle, plan, pack);
    if (made.n_descs > 0)
        (void)f->desc_destroy(made.desc[0]);
    return error;
}

#endif
