"""Write a sample report: learn the shop when the pages are built, and put its report beside them."""

from pathlib import Path

EPISODES = 2000


def learn_sample(app):
    """Write ``_sample/sample/report.html`` if it is missing or older than the source of the report."""
    target = Path(app.confdir) / "_sample" / "sample" / "report.html"
    sources = (Path(app.confdir).parent / "src" / "rewardmix" / "report").glob("*")
    if target.is_file() and target.stat().st_mtime >= max(path.stat().st_mtime for path in sources):
        return
    import rewardmix as rm
    from rewardmix.report.report_data import report_data_from_learn, set_report_type_names
    from rewardmix.report.run_folder import write_run

    shop = rm.problems.make_model("shop")
    result = rm.learn(shop, num_episodes=EPISODES)
    preferred = result.model.rewards[:, 0, :2].argmax(axis=1)  # on the home page: outdoor, or reading
    names = tuple(("outdoor", "reading")[action] for action in preferred)
    command = f"rewardmix learn shop --num-episodes {EPISODES} --type-names {','.join(names)}"
    data = report_data_from_learn(result, title="shop", true_model=shop, command=command, settings={"seed": 0})
    write_run(target.parent, set_report_type_names(data, names))


def setup(app):
    """Write the sample when the builder starts."""
    app.connect("builder-inited", learn_sample)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
