from recnas.baselines.base import Baseline, DeepSettings, joined
from recnas.baselines.layers import Mlp
from recnas.baselines.zoo import Entry, register


class Settings(DeepSettings):
    hidden: tuple[int, ...] = (16,)


class Mine(Baseline):
    def __init__(self, shape, settings):
        super().__init__(shape)
        self.deep = Mlp(shape.flat, settings.hidden, self.draws, settings.dropout, settings.norm)

    @property
    def output_bias(self):
        return self.deep.output_bias

    def forward(self, dense, embedded):
        return self.deep(joined(self.only_vectors(embedded).tanh(), dense))


register("own-net", Entry("Own net", Mine, Settings))
