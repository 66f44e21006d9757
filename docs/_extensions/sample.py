"""A live sample of the report: the shop is learned when the pages are built, and its page is put beside them."""

from pathlib import Path

EPISODES = 2000


def learn_sample(app):
    """Write ``_sample/sample/report.html`` where it is missing or older than what draws it."""
    target = Path(app.confdir) / "_sample" / "sample" / "report.html"
    sources = (Path(app.confdir).parent / "src" / "rewardmix" / "report").glob("*")
    if target.is_file() and target.stat().st_mtime >= max(path.stat().st_mtime for path in sources):
        return
    import rewardmix as rm
    from rewardmix.report.findings import learned_findings, with_names
    from rewardmix.report.folder import write_folder

    shop = rm.problems.make("shop")
    learned = rm.learn(shop, episodes=EPISODES)
    likes = learned.model.rewards[:, 0, :2].argmax(axis=1)  # on the home page: outdoor, or reading
    names = tuple(("outdoor", "reading")[like] for like in likes)
    command = f"rewardmix learn shop --episodes {EPISODES} --names {','.join(names)}"
    found = learned_findings(learned, title="shop", truth=shop, command=command, settings={"seed": 0})
    write_folder(target.parent, with_names(found, names))


def setup(app):
    """Sphinx calls this."""
    app.connect("builder-inited", learn_sample)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
