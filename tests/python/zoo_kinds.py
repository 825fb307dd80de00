"""Tiny models of further kinds, written by us: recurrent, on graphs, of points and rays, with bins, samples and transforms.
zoo.py has their rows, too."""

import math

import torch
from torch.nn import functional as F

from models import VOCABULARY
from zoo_rows import IMAGES, WIDTH, Row, ids, images


class Layered(torch.nn.Module):
    """A language model of PyTorch's own recurrent layers."""

    def __init__(self, layer):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.layers = layer(WIDTH, WIDTH // 2, num_layers=2, bidirectional=True, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids))[0])


class Conformer(torch.nn.Module):
    """Half a step of an MLP, attention with a bias by distance, a gated depthwise convolution, half a step more."""

    def __init__(self, heads=4):
        super().__init__()
        self.heads, linear = heads, torch.nn.Linear
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(5))
        self.first = torch.nn.Sequential(linear(WIDTH, 2 * WIDTH), torch.nn.SiLU(), linear(2 * WIDTH, WIDTH))
        self.last = torch.nn.Sequential(linear(WIDTH, 2 * WIDTH), torch.nn.SiLU(), linear(2 * WIDTH, WIDTH))
        self.qkv, self.out, self.distances = linear(WIDTH, 3 * WIDTH), linear(WIDTH, WIDTH), torch.nn.Embedding(17, heads)
        self.gate, self.point = torch.nn.Conv1d(WIDTH, 2 * WIDTH, 1), torch.nn.Conv1d(WIDTH, WIDTH, 1)
        self.depth, self.batch_norm = torch.nn.Conv1d(WIDTH, WIDTH, 5, padding=2, groups=WIDTH), torch.nn.BatchNorm1d(WIDTH)

    def attention(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        place = torch.arange(n, device=x.device)
        bias = self.distances((place[None] - place[:, None]).clamp(-8, 8) + 8).permute(2, 0, 1)
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(b, n, -1))

    def convolution(self, x):
        x = F.glu(self.gate(x.transpose(1, 2)), 1)
        return self.point(F.silu(self.batch_norm(self.depth(x)))).transpose(1, 2)

    def forward(self, x):
        x = x + 0.5 * self.first(self.norms[0](x))
        x = x + self.attention(self.norms[1](x))
        x = x + self.convolution(self.norms[2](x))
        return self.norms[4](x + 0.5 * self.last(self.norms[3](x)))


class RaggedRecommender(torch.nn.Module):
    """Bags of any lengths, hashed ids, crosses of features, as in DCN."""

    def __init__(self):
        super().__init__()
        self.bags = torch.nn.ModuleList(torch.nn.EmbeddingBag(50, 8, mode=m) for m in ("sum", "mean", "max"))
        self.dense = torch.nn.Linear(5, 8)
        self.crosses = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(2))
        self.top = torch.nn.Linear(32, 1)

    def forward(self, x, ids, offsets):
        hashed = (ids * 2654435761 + 11) % 50
        parts = [self.dense(x), self.bags[0](ids, offsets), self.bags[1](hashed, offsets), self.bags[2](ids, offsets)]
        first = y = torch.cat(parts, 1)
        for cross in self.crosses:
            y = first * cross(y) + y
        return self.top(y).sigmoid()


class GraphAttention(torch.nn.Module):
    """A softmax over the edges into each node, by scattered maxima and sums."""

    def __init__(self, heads=2):
        super().__init__()
        self.heads, self.value = heads, torch.nn.Linear(16, 16)
        self.of_source, self.of_target = torch.nn.Linear(16, heads), torch.nn.Linear(16, heads)

    def forward(self, x, source, target):
        n, heads = x.shape[0], self.heads
        score = F.leaky_relu(self.of_source(x)[source] + self.of_target(x)[target], 0.2)
        place = target[:, None].expand(-1, heads)
        most = x.new_full((n, heads), -1e9).scatter_reduce(0, place, score, "amax", include_self=True)
        weight = (score - most[target]).exp()
        total = torch.zeros_like(most).scatter_add(0, place, weight)
        weight = weight / (total[target] + 1e-9)
        message = self.value(x)[source].view(-1, heads, 16 // heads) * weight[..., None]
        return F.elu(torch.zeros_like(x).index_add(0, target, message.flatten(1)))


class Deformable(torch.nn.Module):
    """Attention to a few sampled places of an image."""

    def __init__(self, heads=2, points=4):
        super().__init__()
        self.heads, self.points = heads, points
        self.value = torch.nn.Conv2d(3, 16, 3, 2, 1)
        self.query, self.offsets = torch.nn.Linear(2, 16), torch.nn.Linear(16, heads * points * 2)
        self.weights, self.out = torch.nn.Linear(16, heads * points), torch.nn.Linear(16, 10)

    def forward(self, x, places):
        v = self.value(x)
        b, c, h, w = v.shape
        n, m, p = places.shape[1], self.heads, self.points
        q = self.query(places)
        at = (2 * places - 1)[:, :, None, None] + self.offsets(q).view(b, n, m, p, 2).tanh() * 0.2
        at = at.transpose(1, 2).reshape(b * m, n, p, 2)
        taken = F.grid_sample(v.reshape(b * m, c // m, h, w), at, mode="bilinear", padding_mode="zeros", align_corners=False)
        weight = self.weights(q).view(b, n, m, p).softmax(-1).transpose(1, 2).reshape(b * m, 1, n, p)
        return self.out((taken * weight).sum(-1).view(b, c, n).transpose(1, 2))


class Retention(torch.nn.Module):
    """Attention without a softmax, whose weights decay with distance, as RetNet."""

    def __init__(self, heads=4):
        super().__init__()
        self.heads, self.embed = heads, torch.nn.Embedding(VOCABULARY, WIDTH)
        self.qkvg, self.out = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(WIDTH, VOCABULARY)
        self.norm = torch.nn.GroupNorm(heads, WIDTH)

    def forward(self, ids):
        x = self.embed(ids)
        b, n, width = x.shape
        q, k, v, g = self.qkvg(x).chunk(4, -1)
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        rate = (1 - 2.0 ** (-5 - torch.arange(self.heads, device=x.device).to(x.dtype))).log()
        gap = torch.arange(n, device=x.device)[:, None] - torch.arange(n, device=x.device)[None]
        decay = torch.where(gap >= 0, (gap * rate[:, None, None]).exp(), 0.0)
        a = (q @ k.transpose(2, 3)) * decay / decay.sum(-1, keepdim=True).sqrt()
        y = a / a.detach().abs().sum(-1, keepdim=True).clamp(min=1) @ v
        y = self.norm(y.transpose(1, 2).reshape(b * n, width)).view(b, n, width)
        return self.out(F.silu(g) * y)


class Rays(torch.nn.Module):
    """Colours along rays: places drawn where a first pass saw something, and a product of what is let through (NeRF)."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(27, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))

    def field(self, at):
        scales = 2.0 ** torch.arange(4, device=at.device).to(at.dtype)
        angle = (at[..., None] * scales).flatten(-2)
        return self.body(torch.cat([at, angle.sin(), angle.cos()], -1))

    @staticmethod
    def weights(density, depth):
        gap = torch.cat([depth[:, 1:] - depth[:, :-1], torch.full_like(depth[:, :1], 1.0)], 1)
        alpha = 1 - (-F.relu(density) * gap).exp()
        through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-6], 1), 1)[:, :-1]
        return alpha * through

    def forward(self, origin, direction, n=12):
        depth = torch.linspace(0.1, 2.0, n, device=origin.device, dtype=origin.dtype).expand(origin.shape[0], n)
        at = origin[:, None] + direction[:, None] * depth[..., None]
        weight = self.weights(self.field(at)[..., 3], depth)[:, 1:-1] + 1e-3
        cdf = F.pad((weight / weight.sum(1, keepdim=True)).cumsum(1), (1, 0))
        u = torch.linspace(0.05, 0.95, 8, device=origin.device, dtype=origin.dtype).expand(origin.shape[0], 8).contiguous()
        above = torch.searchsorted(cdf.detach(), u, right=True).clamp(1, cdf.shape[1] - 1)
        middle = 0.5 * (depth[:, 1:] + depth[:, :-1])
        (c0, c1), (d0, d1) = ((t.gather(1, above - 1), t.gather(1, above)) for t in (cdf, middle))
        fine = d0 + (u - c0) / (c1 - c0).clamp(min=1e-5) * (d1 - d0)
        depth = torch.cat([depth, fine], 1).sort(1).values
        out = self.field(origin[:, None] + direction[:, None] * depth[..., None])
        return (self.weights(out[..., 3], depth)[..., None] * out[..., :3].sigmoid()).sum(1)


class Points(torch.nn.Module):
    """The maximum over the features of each point's nearest ones, as DGCNN."""

    def __init__(self, near=4):
        super().__init__()
        self.near, self.first, self.second = near, torch.nn.Linear(6, 16), torch.nn.Linear(32, 32)
        self.head = torch.nn.Linear(32, 10)

    def edges(self, x):
        distance = torch.cdist(x, x)
        nearest = distance.topk(self.near, largest=False).indices
        b, n, k = nearest.shape
        other = x.gather(1, nearest.reshape(b, n * k, 1).expand(-1, -1, x.shape[2])).view(b, n, k, -1)
        mine = x[:, :, None].expand_as(other)
        return torch.cat([mine, other - mine], -1)

    def forward(self, x):
        x = F.relu(self.first(self.edges(x))).amax(2)
        x = F.relu(self.second(self.edges(x))).amax(2)
        return self.head(x.amax(1))


class Codes(torch.nn.Module):
    """An image as the nearest vectors of a book, and their use (VQ-VAE)."""

    def __init__(self):
        super().__init__()
        self.down, self.book = torch.nn.Conv2d(3, 8, 4, 4), torch.nn.Embedding(20, 8)
        self.up = torch.nn.ConvTranspose2d(8, 3, 4, 4)

    def forward(self, x):
        z = self.down(x).permute(0, 2, 3, 1)
        flat, book = z.reshape(-1, 8), self.book.weight
        code = (flat.square().sum(1, keepdim=True) + book.square().sum(1) - 2 * flat @ book.t()).argmin(1)
        use = torch.bincount(code, minlength=20).to(x.dtype) / code.shape[0]
        spread = torch.exp(-(use * (use + 1e-7).log()).sum())
        near = self.book(code).view_as(z)
        near = z + (near - z).detach()
        return self.up(near.permute(0, 3, 1, 2)) * (1 + 0.01 * spread)


class Local(torch.nn.Module):
    """Attention of each place to the places around it, by unfold."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Conv2d(3, 24, 1), torch.nn.Conv2d(8, 8, 1)
        self.places = torch.nn.Parameter(torch.randn(9) * 0.1)

    def forward(self, x):
        b, _, h, w = x.shape
        q, k, v = self.qkv(x).chunk(3, 1)
        k, v = (F.unfold(t, 3, padding=1).view(b, 8, 9, h * w) for t in (k, v))
        score = (q.reshape(b, 8, 1, h * w) * k).sum(1) / math.sqrt(8) + self.places[:, None]
        y = (score.softmax(1)[:, None] * v).sum(2).view(b, 8, h, w)
        return self.out(y).mean((2, 3))


class Spectral(torch.nn.Module):
    """Weights for the lowest frequencies of an image (Fourier neural operator)."""

    def __init__(self, modes=4):
        super().__init__()
        self.modes, self.lift, self.down = modes, torch.nn.Conv2d(3, 8, 1), torch.nn.Conv2d(8, 1, 1)
        self.real, self.imaginary = (torch.nn.Parameter(torch.randn(8, 8, modes, modes) * 0.1) for _ in range(2))

    def forward(self, x):
        y = self.lift(x)
        z = torch.fft.rfft2(y.float())[:, :, :self.modes, :self.modes]
        z = torch.einsum("bixy,ioxy->boxy", z, torch.complex(self.real.float(), self.imaginary.float()))
        return self.down(F.gelu(torch.fft.irfft2(z, s=x.shape[-2:]).to(x.dtype) + y))


class Waves(torch.nn.Module):
    """Dilated causal convolutions with gates, as WaveNet."""

    def __init__(self):
        super().__init__()
        self.begin = torch.nn.Conv1d(1, 16, 1)
        self.gates = torch.nn.ModuleList(torch.nn.Conv1d(16, 32, 2, dilation=2 ** i) for i in range(4))
        self.skips = torch.nn.ModuleList(torch.nn.Conv1d(16, 16, 1) for _ in range(4))
        self.end = torch.nn.Conv1d(16, 32, 1)

    def forward(self, x):
        x, total = self.begin(x), 0
        for i, (gate, skip) in enumerate(zip(self.gates, self.skips)):
            a, b = gate(F.pad(x, (2 ** i, 0))).chunk(2, 1)
            y = skip(a.tanh() * b.sigmoid())
            x, total = x + y, total + y
        return self.end(F.relu(total))


class Splines(torch.nn.Module):
    """Sums of spline bases with learnt weights (KAN), on bins of the data."""

    def __init__(self, inside=8, outside=8, n=7):
        super().__init__()
        self.register_buffer("knots", torch.linspace(-2, 2, n))
        self.weight, self.bins = torch.nn.Parameter(torch.randn(inside, n - 3, outside) * 0.3), torch.nn.Embedding(n + 1, outside)

    def forward(self, x):
        t, v = self.knots.to(x.dtype), x[..., None]
        basis = ((v >= t[:-1]) & (v < t[1:])).to(x.dtype)
        for k in (1, 2):
            left = (v - t[:-k - 1]) / (t[k:-1] - t[:-k - 1]) * basis[..., :-1]
            right = (t[k + 1:] - v) / (t[k + 1:] - t[1:-k]) * basis[..., 1:]
            basis = left + right
        return torch.einsum("bik,iko->bo", basis, self.weight) + self.bins(torch.bucketize(x, t)).mean(1)


class Tagger(torch.nn.Module):
    """The log-likelihood of tags: a sum over all paths, step by step (CRF)."""

    def __init__(self, n=5):
        super().__init__()
        self.embed, self.scores = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Linear(WIDTH, n)
        self.steps = torch.nn.Parameter(torch.randn(n, n))

    def forward(self, ids):
        score = self.scores(self.embed(ids))
        tags = score.argmax(-1)
        alpha, path = score[:, 0], score[:, 0].gather(1, tags[:, :1])
        for i in range(1, 5):
            alpha = torch.logsumexp(alpha[:, :, None] + self.steps, 1) + score[:, i]
            path = path + score[:, i].gather(1, tags[:, i:i + 1]) + self.steps[tags[:, i - 1], tags[:, i]][:, None]
        return path[:, 0] - alpha.logsumexp(1)


class Kernelised(torch.nn.Module):
    """Causal linear attention by sums over positions, with random features (Performer)."""

    def __init__(self, heads=4, features=8):
        super().__init__()
        self.heads, self.embed = heads, torch.nn.Embedding(VOCABULARY, WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("features", torch.randn(WIDTH // heads, features) * 0.5)

    def forward(self, ids):
        b, n = ids.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(self.embed(ids)).chunk(3, -1))
        q, k = (torch.exp(t @ self.features - t.square().sum(-1, keepdim=True) / 2) for t in (q, k))
        state = torch.einsum("bhnf,bhnd->bhnfd", k, v).cumsum(2)
        y = torch.einsum("bhnf,bhnfd->bhnd", q, state) / torch.einsum("bhnf,bhnf->bhn", q, k.cumsum(2))[..., None]
        return self.out(y.transpose(1, 2).reshape(b, n, -1))


class Encoder(torch.nn.Module):
    """PyTorch's own layers of transformers, with a mask of padding."""

    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.embed, self.body = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.pool = torch.nn.MultiheadAttention(WIDTH, 4, batch_first=True)

    def forward(self, ids):
        padding = ids < 8
        x = self.body(self.embed(ids), src_key_padding_mask=padding)
        return self.pool(x[:, :1], x, x, key_padding_mask=padding, need_weights=False)[0]


class Volume(torch.nn.Module):
    """Of an image in three dimensions: instance norms, and a way up."""

    def __init__(self):
        super().__init__()
        self.first, self.down = torch.nn.Conv3d(1, 8, 3, padding=1), torch.nn.Conv3d(8, 16, 3, 2, 1)
        self.norm, self.last = torch.nn.InstanceNorm3d(16, affine=True), torch.nn.Conv3d(24, 2, 1)

    def forward(self, x):
        a = F.leaky_relu(self.first(x))
        b = F.interpolate(F.leaky_relu(self.norm(self.down(a))), scale_factor=2, mode="trilinear")
        return self.last(torch.cat([a, b], 1))


class Moved(torch.nn.Module):
    """A flow by which an image is moved, and a transform of all of it (a spatial transformer)."""

    def __init__(self):
        super().__init__()
        self.flow, self.turn = torch.nn.Conv2d(3, 2, 3, padding=1), torch.nn.Linear(3, 6)

    def forward(self, x):
        b, _, h, w = x.shape
        angle = self.turn(x.mean((2, 3))).view(b, 2, 3)
        place = F.affine_grid(angle, [b, 3, h, w], align_corners=False)
        place = place + self.flow(x).permute(0, 2, 3, 1).tanh() * 0.1
        return F.grid_sample(x, place, mode="bilinear", padding_mode="border", align_corners=False)


def _edges(n, k):
    return torch.randn(n + 3, 16), torch.randint(0, n + 3, (k * 4,)), torch.randint(0, n + 3, (k * 4,))


def _bags(batch, length):
    return (torch.randn(batch, 5), torch.randint(0, 50, (batch * length,)),
            torch.cat([torch.zeros(1, dtype=torch.int64), torch.randint(0, batch * length, (batch - 1,)).sort().values]))


def _frames(batch, length):
    return (torch.randn(batch, length, WIDTH),)


KINDS = {
    "lstm_layers": Row(lambda: Layered(torch.nn.LSTM), ids),
    "gru_layers": Row(lambda: Layered(torch.nn.GRU), ids),
    "conformer": Row(Conformer, _frames, ((2, 12), (3, 9), (1, 20))),
    "ragged_recommender": Row(RaggedRecommender, _bags),
    "graph_attention": Row(GraphAttention, _edges),
    "deformable": Row(Deformable, lambda batch, size: (*images(batch, size), torch.rand(batch, 9, 2)), ((2, 16), (3, 24), (1, 16))),
    "retention": Row(Retention, ids),
    "rays": Row(Rays, lambda batch, length: (torch.randn(batch * length, 3), torch.randn(batch * length, 3))),
    "points": Row(Points, lambda batch, length: (torch.randn(batch, length + 8, 3),)),
    "codes": Row(Codes, images, IMAGES),
    "local": Row(Local, images, ((2, 16), (3, 12), (1, 20))),
    "spectral": Row(Spectral, images, ((2, 16), (3, 16), (1, 16))),
    "waves": Row(Waves, lambda batch, length: (torch.randn(batch, 1, length * 8),)),
    "splines": Row(Splines, lambda batch, length: (torch.randn(batch * length, 8),)),
    "tagger": Row(Tagger, ids),
    "kernelised": Row(Kernelised, ids),
    "encoder": Row(Encoder, ids),
    "volume": Row(Volume, lambda batch, size: (torch.randn(batch, 1, size, size, size),), ((2, 8), (3, 8), (1, 12))),
    "moved": Row(Moved, images, ((2, 16), (3, 24), (1, 16))),
}
