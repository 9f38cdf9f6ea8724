"""The included models: each learns a task from every kind of data, in both forms."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

import tensorbow
from tensorbow import cli, datasets, models
from tensorbow.cli import model_names

tf1 = tf.compat.v1
TEXT = "the cat sat on the mat. the dog ate the cat. " * 60


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "cats.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def image_folder(tmp_path_factory):
    """Writes two classes, in two formats and three sizes: dark on the left, dark on the right."""
    folder = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    with context.eager_mode():
        for label in ("left", "right"):
            (folder / label).mkdir()
            (folder / label / "notes.txt").write_text("not an image")
            for k in range(20):
                size = 8 + 4 * ((k + 2) % 3)  # the first one is for the test; the next one has 8
                pixels = random.integers(128, 256, (size, size, 3)).astype(np.uint8)
                half = slice(size // 2) if label == "left" else slice(size // 2, None)
                pixels[:, half] //= 4
                png = label == "left"
                data = tf.io.encode_png(pixels) if png else tf.io.encode_jpeg(pixels, quality=100)
                suffix = "png" if png else "jpg"
                (folder / label / f"{k:02}.{suffix}").write_bytes(data.numpy())
    return folder


def train(path, *flags, **more):
    given = [str(flag) for flag in ("train", *flags, "--json", path)]
    assert cli.main(given) == 0
    return json.loads(path.read_text())


def refusal(capsys, *arguments):
    with pytest.raises(SystemExit):
        cli.main([str(a) for a in arguments])
    return capsys.readouterr().err


# ------------------------------------------------------------------------- networks


def built(name):
    """Returns a program on few rows of a small shape, with feeds; every gradient exists."""
    facts = model_names.MODELS[name]
    shape = (32, 32, 3) if facts.reads == "image" else (6,)
    program = models.build(name, shape, 7, lambda: tf1.train.AdamOptimizer(1e-4), seed=1)
    data = datasets.synthetic(name, shape, 7, rows=64)
    with program.graph.as_default():
        slots = [v for v in tf1.global_variables() if v.op.name.endswith("/Adam")]
        assert len(slots) == len(tf1.trainable_variables())
    return program, {program.inputs: data.x_train[:4], program.labels: data.y_train[:4]}


@pytest.mark.parametrize("name", ["logistic", "lenet", "lstm", "transformer", "embedding"])
def test_two_learners_train_it(name):
    program, feeds = built(name)
    options = tensorbow.Options(learners_per_device=2)
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        loss = session.run([program.loss, program.train_op], feeds)[0]
        assert session.learning_tasks == 2
        assert 0.3 * np.log(7) < loss < 5 * np.log(7)
        assert 0 <= session.run(program.accuracy, feeds) <= 1


@pytest.mark.parametrize("name", ["vgg16", "resnet50", "mobilenet"])
def test_deep_networks_have_a_gradient_for_every_variable(name):
    built(name)


# The papers' numbers for 224×224 images and 1,000 classes. VGG-16: Simonyan and Zisserman's 138
# million (table 2), here with two numbers per channel of a normalisation instead of a bias.
# ResNet-50 and MobileNet: 25.6 and 4.2 million.
PARAMETERS = {"vgg16": 138_361_768, "resnet50": 25_557_032, "mobilenet": 4_231_976}


@pytest.mark.parametrize("name", PARAMETERS)
def test_large_images_make_the_networks_of_the_papers(name):
    from tensorbow.cli.train import keras_networks

    layers = models.Layers(1, True, tf.float32)
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, 224, 224, 3])
        models.MODELS[name](x, 1000, layers, False)
        ours = sum(int(np.prod(v.shape)) for v in tf1.trainable_variables())
    assert ours == PARAMETERS[name]
    if name != "vgg16":  # half a gigabyte
        with context.eager_mode():
            model = keras_networks.build(name, (224, 224, 3), 1000)
            assert sum(int(np.prod(w.shape)) for w in model.trainable_weights) == ours


@pytest.mark.parametrize("name", ["vgg16", "lstm", "transformer", "embedding"])
def test_both_forms_have_the_same_number_of_parameters(name):
    from tensorbow.cli.train import keras_networks

    facts = model_names.MODELS[name]
    program = models.build(name, facts.shape, facts.classes)
    with program.graph.as_default():
        ours = sum(int(np.prod(v.shape)) for v in tf1.trainable_variables())
    with context.eager_mode():
        model = keras_networks.build(name, facts.shape, facts.classes)
    assert sum(int(np.prod(w.shape)) for w in model.trainable_weights) == ours


def test_a_character_sees_none_after_it():
    program = models.build("transformer", (6,), 5, seed=1)
    with tf1.Session(graph=program.graph) as session:
        session.run(program.init)
        logits = program.graph.get_tensor_by_name("logits/kernel:0")
        del logits
        x = np.array([[1, 2, 3, 4, 0, 1]], np.int32)
        other = x.copy()
        other[0, 4:] = [3, 3]
        with program.graph.as_default():
            layers = models.Layers(1, True, tf.float32)
            with tf1.variable_scope("again"):
                y = models.MODELS["transformer"](program.inputs, 5, layers, False)
            session.run(tf1.variables_initializer(tf1.global_variables("again")))
        a, b = (session.run(y, {program.inputs: given}) for given in (x, other))
    np.testing.assert_allclose(a[:, :4], b[:, :4], rtol=1e-5, atol=1e-6)
    assert not np.allclose(a[:, 4:], b[:, 4:])


# ----------------------------------------------------------------------------- data


def test_a_folder_of_images_is_read(image_folder):
    data = datasets.load(image_folder)
    assert data.shape == (8, 8, 3) and data.classes == 2
    assert (len(data.x_train), len(data.x_test)) == (32, 8)
    np.testing.assert_array_equal(data.y_train, [0] * 16 + [1] * 16)
    # Dark is where it was, in images of other sizes, too.
    left, right = data.x_train[:, :, :3].mean((1, 2, 3)), data.x_train[:, :, 5:].mean((1, 2, 3))
    np.testing.assert_array_equal(left > right, data.y_train == 1)
    with context.eager_mode():
        pixels = tf.io.decode_png((image_folder / "left" / "04.png").read_bytes()).numpy()
    # Every fifth is for the test: 01, 02, 03, 04 are the first.
    np.testing.assert_allclose(data.x_train[3], pixels / 255, atol=1e-6)


def test_folders_of_training_and_test_images(image_folder, tmp_path):
    for part in ("train", "test"):
        (tmp_path / part).symlink_to(image_folder)
    data = datasets.load(tmp_path)
    assert (len(data.x_train), len(data.x_test)) == (40, 40)
    np.testing.assert_array_equal(data.x_train, data.x_test)


def test_a_text_becomes_characters_and_words(text_file):
    data = datasets.load(text_file, "lstm")
    assert data.vocabulary == sorted(set(TEXT))
    text = "".join(data.vocabulary[k] for k in data.x_train[:2].ravel())
    after = "".join(data.vocabulary[k] for k in data.y_train[:2].ravel())
    assert text == TEXT[:128] and after == TEXT[1:129]
    words = datasets.load(text_file, "embedding")
    assert " ".join(words.vocabulary[k] for k in words.x_train[1]) == "cat sat on the mat . the dog"
    assert words.vocabulary[words.y_train[1]] == "ate"
    assert words.vocabulary[:2] == ["", "the"]


@pytest.mark.parametrize(
    "model, given, message",
    [
        ("lenet", "synthetic:8x8", "wanted synthetic:SHAPE:CLASSES"),
        ("lenet", "synthetic:64:65", "lenet reads a row of shape (height, width, channels)"),
        ("lstm", "synthetic:8x8x1:10", "lstm reads a row of shape (length,)"),
        ("lstm", None, "lstm reads characters: wanted --data FILE"),
        ("embedding", ".", "embedding reads words; got the folder"),
        ("lstm", "short.txt", "has 5 characters; wanted at least"),
        ("lstm", "latin.txt", "is not a text in UTF-8"),
        ("lenet", "empty", "got 0 training and 0 test images"),
        ("lenet", "broken", "an image cannot be decoded"),
        ("lenet", "uneven", "the classes are a in train, b in test"),
    ],
)
def test_data_of_another_kind_are_refused(model, given, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.txt").write_text("short")
    (tmp_path / "latin.txt").write_bytes(b"\xe9" * 5000)
    (tmp_path / "empty" / "class").mkdir(parents=True)
    (tmp_path / "broken" / "class").mkdir(parents=True)
    for k in range(3):
        (tmp_path / "broken" / "class" / f"{k}.png").write_bytes(b"no image")
    for part, name in (("train", "a"), ("test", "b")):
        (tmp_path / "uneven" / part / name).mkdir(parents=True)
        (tmp_path / "uneven" / part / name / "0.png").write_bytes(b"")
    flags = ["--data", given] if given else []
    assert message in refusal(capsys, "train", "--model", model, *flags)


def test_images_that_do_not_fit_into_memory_are_refused(image_folder, capsys, monkeypatch):
    monkeypatch.setattr("tensorbow._session.memory.available_bytes", lambda: 1000)
    message = refusal(capsys, "train", "--data", image_folder)
    assert "40 images of 8x8 need 37.5 KiB, and this process may use 1000 bytes more" in message


# ------------------------------------------------------------------------------ training


def test_images_of_a_folder_are_learned(image_folder, tmp_path):
    flags = ["--model", "logistic", "--data", image_folder, "--learners", 2, "--batch-size", 4]
    (ours,) = train(tmp_path / "n.json", *flags, "--epochs", 4, "--learning-rate", 0.05)
    assert ours["accuracy"][-1] == 1


def test_a_text_is_learned_character_by_character(text_file, tmp_path):
    flags = ["--model", "transformer", "--data", text_file, "--learners", 2, "--batch-size", 4]
    flags += ["--optimiser", "adam", "--learning-rate", 0.003, "--epochs", 12]
    (ours,) = train(tmp_path / "n.json", *flags)
    assert ours["accuracy"][-1] > 0.6


@pytest.mark.parametrize("frontend", ["session", "keras"])
def test_a_text_is_learned_word_by_word(frontend, text_file, tmp_path):
    flags = ["--model", "embedding", "--data", text_file, "--learners", 2, "--batch-size", 8]
    flags += ["--frontend", frontend, "--optimiser", "adam", "--learning-rate", 0.01]
    with context.eager_mode() if frontend == "keras" else context.graph_mode():
        stock, ours = train(tmp_path / "n.json", *flags, "--epochs", 2, "--compare", "stock")
    for found in (stock, ours):
        assert found["accuracy"][-1] > 0.5


def test_made_up_rows_are_trained_on(tmp_path, capsys):
    flags = ["--model", "lenet", "--data", "synthetic:8x8x3:5", "--learners", 2]
    monkey = datasets._SYNTHETIC_ROWS
    datasets._SYNTHETIC_ROWS = 64
    try:
        (ours,) = train(tmp_path / "n.json", *flags, "--epochs", 1)
    finally:
        datasets._SYNTHETIC_ROWS = monkey
    assert ours["samples"] == [64]
    assert "64 training and 6 test images of 8x8x3" in capsys.readouterr().out
