/* Copies a tensor with any strides to another of the same sizes, on a stream. */
#include "device/cuda/internal.h"

#include "base/status.h"

/* Parameters of cuda/copy_tensor.cu: to, from, number of elements, bytes of an element, then for each axis, last first:
 * size, stride of `to`, stride of `from`. */
enum { N_WORDS = 4 + 3 * MD_MAX_RANK };

/* Fills the parameters. Axes that are contiguous in both tensors are merged, and axes of size 1 are left out. Returns
 * the number of axes. */
static int32_t pack(md_kn_word word[N_WORDS], const md_tensor *to, const md_tensor *from)
{
    int32_t n = 0;
    int64_t n_points = 1, (*axis)[3] = (int64_t(*)[3])(void *)&word[4];
    for (int32_t i = 0; i < N_WORDS; i++)
        word[i].i = i >= 4 && i % 3 == 1 ? 1 : 0;
    for (int32_t i = to->rank - 1; i >= 0; i--) {
        int64_t size = to->size[i];
        n_points *= size;
        if (size == 1)
            continue;
        if (n > 0 && to->stride[i] == axis[n - 1][0] * axis[n - 1][1] &&
            from->stride[i] == axis[n - 1][0] * axis[n - 1][2]) {
            axis[n - 1][0] *= size;
            continue;
        }
        axis[n][0] = size;
        axis[n][1] = to->stride[i];
        axis[n++][2] = from->stride[i];
    }
    word[0].p = to->data;
    word[1].p = from->data;
    word[2].i = n_points;
    word[3].i = (int64_t)md_dtype_size(to->dtype);
    return n;
}

static md_status find_kernel(md_dev_kernel **out, md_dev_cuda *dev)
{
    pthread_mutex_lock(&dev->lock);
    md_status status = dev->copier ? MD_OK : md_dev_cuda_make(&dev->copier, dev, "copy_tensor");
    *out = dev->copier;
    pthread_mutex_unlock(&dev->lock);
    return status;
}

static md_status copy_flat(md_dev_cuda *dev, cudaStream_t stream, const md_kn_word *word)
{
    md_dev_cuda_scope scope;
    size_t n_bytes = (size_t)(word[2].i * word[3].i);
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    md_status status = md_dev_cuda_result(
        dev, cudaMemcpyAsync(word[0].p, word[1].p, n_bytes, cudaMemcpyDefault, stream), "copying %zu bytes", n_bytes);
    md_dev_cuda_leave(&scope);
    return status;
}

md_status md_dev_cuda_copy_tensor(md_dev *base, md_stream stream, const md_tensor *to, const md_tensor *from)
{
    enum { THREADS = 256, BLOCKS_PER_SM = 8 };
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_kn_word word[N_WORDS];
    int32_t n_axes = pack(word, to, from);
    if (word[2].i == 0)
        return MD_OK;
    if (n_axes == 0 || (n_axes == 1 && word[5].i == 1 && word[6].i == 1))
        return copy_flat(dev, (cudaStream_t)stream, word);
    md_dev_kernel *kernel = NULL;
    MD_TRY(find_kernel(&kernel, dev));
    int64_t n_blocks = MD_MIN((word[2].i + THREADS - 1) / THREADS, (int64_t)base->facts.threads * BLOCKS_PER_SM);
    md_kn_geometry g = {.blocks = n_blocks, .grain = 1, .grid = {(int32_t)n_blocks, 1, 1}, .block = {THREADS, 1, 1}};
    return md_dev_cuda_launch(base, stream, kernel, &g, (md_dev_params){word, N_WORDS}, NULL);
}
