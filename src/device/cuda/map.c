/* Tensor maps: descriptions of tensors for the copy engine (TMA) of sm_90 and later, made by functions of the
 * driver. */
#include "device/cuda/internal.h"

#include "base/status.h"

#include <string.h>

/* cuTensorMapEncodeTiled of the driver (CUDA 12.0). Declared here, so that the driver's header is not needed. f32 is
 * rounded to tf32: only products that allow tf32 have maps of f32. */
enum { TYPE_U8 = 0, TYPE_F16 = 6, TYPE_BF16 = 9, TYPE_TF32 = 11 };
enum { SWIZZLE_NONE, SWIZZLE_32, SWIZZLE_64, SWIZZLE_128 };
enum { INTERLEAVE_NONE = 0, PROMOTION_128 = 2, PROMOTION_256 = 3, FILL_ZEROS = 0 };
typedef struct __attribute__((may_alias)) tensor_map {
    _Alignas(64) uint64_t word[MD_KN_MAP_WORDS];
} tensor_map;
typedef int (*encode_fn)(tensor_map *out, int type, uint32_t rank, void *data, const uint64_t *size,
                         const uint64_t *stride, const uint32_t *box, const uint32_t *step, int interleave, int swizzle,
                         int upgrade, int fill);

void (*md_dev_cuda_driver_function(const char *name))(void)
{
    void *f = NULL;
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    if (cudaGetDriverEntryPointByVersion(name, &f, 12000, cudaEnableDefault, &found) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    return found == cudaDriverEntryPointSuccess ? (void (*)(void))(uintptr_t)f : NULL;
}

void (*md_dev_cuda_map_encoder(void))(void)
{
    return md_dev_cuda_driver_function("cuTensorMapEncodeTiled");
}

void (*md_dev_cuda_map_mover(void))(void)
{
    return md_dev_cuda_driver_function("cuTensorMapReplaceAddress");
}

static int swizzle_of(const md_kn_map *m)
{
    return m->swizzle == 128  ? SWIZZLE_128
           : m->swizzle == 64 ? SWIZZLE_64
           : m->swizzle == 32 ? SWIZZLE_32
                              : SWIZZLE_NONE;
}

static int type_of(const md_kn_map *m)
{
    return m->dtype == MD_BF16                      ? TYPE_BF16
           : m->dtype == MD_F16                     ? TYPE_F16
           : md_dtype_size((md_dtype)m->dtype) == 1 ? TYPE_U8
                                                    : TYPE_TF32;
}

/* Bytes that a miss loads into the L2. Tensors larger than the L2 are up to 5% faster with 128 bytes, others with
 * 256. */
static int upgrade_of(const uint64_t *size, uint32_t rank, uint64_t item)
{
    static const uint64_t LARGE = 40 << 20;
    uint64_t bytes = item;
    for (uint32_t i = 0; i < rank; i++)
        bytes *= size[i];
    return bytes > LARGE ? PROMOTION_128 : PROMOTION_256;
}

/* The same for a map whose dims are axes of the tensor. */
static bool encode_axes(tensor_map *out, encode_fn f, const md_kn_map *m, const md_kn_call *call, void *data)
{
    const md_kn_shape *shape = call->shape;
    const uint64_t item = md_dtype_size((md_dtype)m->dtype);
    uint64_t size[MD_KN_MAP_AXES], stride[MD_KN_MAP_AXES];
    uint32_t box[MD_KN_MAP_AXES], step[MD_KN_MAP_AXES];
    for (int32_t i = 0; i < m->n_axes; i++) {
        size[i] = (uint64_t)shape->extent[m->tensor][m->axes[i]];
        stride[i] = size[i] == 1 ? 16 : (uint64_t)shape->stride[m->tensor][m->axes[i]] * item;
        box[i] = m->axes_box[i];
        step[i] = 1;
    }
    return f(out, type_of(m), m->n_axes, data ? data : call->data[m->tensor], size, stride + 1, box, step,
             INTERLEAVE_NONE, swizzle_of(m), upgrade_of(size, m->n_axes, item), FILL_ZEROS) == 0;
}

/* Encodes one map. `data` NULL: the tensor's address. `copies`: offset of the next copy in the workspace. */
static bool encode(tensor_map *out, encode_fn f, const md_kn_map *m, const md_kn_call *call, void *data,
                   uint64_t *copies)
{
    const md_kn_shape *shape = call->shape;
    if (m->n_axes > 0)
        return encode_axes(out, f, m, call, data);
    uint64_t size[MD_KN_MAP_RANK], stride[MD_KN_MAP_RANK], item = md_dtype_size((md_dtype)m->dtype);
    uint32_t box[MD_KN_MAP_RANK], step[MD_KN_MAP_RANK];
    for (int32_t i = 0; i < MD_KN_MAP_RANK; i++) {
        size[i] = 1;
        for (int32_t d = 0; d < m->n_dims[i]; d++)
            size[i] *= (uint64_t)shape->size[m->dim[i][d]];
        stride[i] = m->n_dims[i] > 0 ? (uint64_t)shape->stride[m->tensor][m->axis[i]] * item : 0;
        if (size[i] == 1)
            stride[i] = 16; /* not used, but it must be valid */
        box[i] = m->box[i];
        step[i] = 1;
    }
    if (m->shrinks)
        box[1] = (uint32_t)MD_MIN(box[1], (size[1] + 7) / 8 * 8);
    if (m->is_copy) {
        if (!data)
            data = (char *)call->workspace + *copies;
        stride[1] = (size[0] * item + MD_KN_COPY_LINE - 1) / MD_KN_COPY_LINE * MD_KN_COPY_LINE;
        stride[2] = stride[1] * size[1];
        *copies += (stride[2] * size[2] + 255) / 256 * 256;
    }
    if (!data)
        data = call->data[m->tensor];
    return f(out, type_of(m), MD_KN_MAP_RANK, data, size, stride + 1, box, step, INTERLEAVE_NONE, swizzle_of(m),
             upgrade_of(size, MD_KN_MAP_RANK, item), FILL_ZEROS) == 0;
}

md_status md_dev_cuda_fill_maps(md_kn_word out[MD_DEV_CUDA_MAP_PARAMS], const md_dev_cuda_kernel *kernel,
                                md_dev_params params, const md_kn_call *call)
{
    _Static_assert(sizeof(tensor_map) == MD_KN_MAP_WORDS * sizeof(md_kn_word), "words of a map");
    encode_fn f = (encode_fn)kernel->encode_map;
    if (!f)
        return md_fail(MD_UNSUPPORTED, "this driver makes no tensor maps");
    if (params.n > MD_DEV_CUDA_MAP_PARAMS || params.n < kernel->n_maps * MD_KN_MAP_WORDS)
        return md_fail(MD_INTERNAL, "a kernel with tensor maps takes %d words", (int)params.n);
    uint64_t copies = 0;
    memcpy(out, params.word, (size_t)params.n * sizeof *params.word);
    for (int32_t i = 0; i < kernel->n_maps; i++) {
        tensor_map map;
        if (!encode(&map, f, &kernel->map[i], call, NULL, &copies))
            return md_fail(MD_INTERNAL, "no tensor map for tensor %d of kernel '%s'", (int)kernel->map[i].tensor,
                           kernel->facts.kernel);
        memcpy(out + i * MD_KN_MAP_WORDS, &map, sizeof map);
    }
    return MD_OK;
}

/* ---- Maps that launch plans keep */

/* The address of a map before it is set. */
#define NOWHERE ((void *)(uintptr_t)4096)

md_status md_dev_cuda_map_make(md_dev_map *out, md_dev *dev, const md_dev_kernel *kernel, int32_t i,
                               const md_kn_call *call)
{
    (void)dev;
    const md_dev_cuda_kernel *k = (const md_dev_cuda_kernel *)kernel;
    tensor_map map;
    uint64_t copies = 0, before = 0;
    if (!k->encode_map || !k->move_map)
        return md_fail(MD_UNSUPPORTED, "this driver makes no tensor maps");
    for (int32_t m = 0; m <= i; m++) {
        before = copies;
        if (!encode(&map, (encode_fn)k->encode_map, &k->map[m], call, NOWHERE, &copies))
            return md_fail(MD_INTERNAL, "no tensor map for tensor %d of kernel '%s'", (int)k->map[m].tensor,
                           k->facts.kernel);
    }
    *out = (md_dev_map){
        .address = (uint64_t)(uintptr_t)NOWHERE, .tensor = k->map[i].is_copy ? -1 : k->map[i].tensor, .offset = before};
    memcpy(out->word, &map, sizeof map);
    out->at = (int16_t)md_dev_map_find_address(out->word, out->address, (md_dev_map_mover)k->move_map);
    return MD_OK;
}

__attribute__((hot)) md_status md_dev_cuda_map_move(md_kn_word words[MD_KN_MAP_WORDS], md_dev *dev,
                                                    const md_dev_kernel *kernel, uint64_t address)
{
    (void)dev;
    const md_dev_cuda_kernel *k = (const md_dev_cuda_kernel *)kernel;
    tensor_map copy; /* the driver requires 64-byte alignment */
    const bool is_aligned = (uintptr_t)words % 64 == 0;
    tensor_map *map = is_aligned ? (tensor_map *)(void *)words : memcpy(&copy, words, sizeof copy);
    if (((md_dev_map_mover)k->move_map)(map, (void *)(uintptr_t)address) != 0)
        return md_fail(MD_INTERNAL, "a tensor map of kernel '%s' cannot point to %p", k->facts.kernel,
                       (void *)(uintptr_t)address);
    if (!is_aligned)
        memcpy(words, map, sizeof *map);
    return MD_OK;
}
