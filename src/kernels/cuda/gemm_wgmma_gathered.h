/* What depends on the tile, of products whose rows lie anywhere. A part of gemm_wgmma_rows.cu. */
#include "gemm_wgmma_copy.h"

#include "gemm_wgmma_multiply.h"

#if MD_PRODUCTS == 2
#define MD_MAP_OF_RESULT map2
#else
#define MD_MAP_OF_RESULT map1
#endif

#include "gemm_wgmma_epilogue.h"

#include "gemm_wgmma_gather.h"
#include "gemm_wgmma_run.h"
