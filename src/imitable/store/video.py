"""Writing clips: .mp4 with the ffmpeg that `imageio-ffmpeg` brings, .gif without anything."""

import os
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from io import BytesIO
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from imitable.errors import ImitableError
from imitable.store.files import check_writable, remove_leftovers, write_atomically

SUFFIXES = (".mp4", ".gif")


def check_video(path: Path, *, overwrite: bool = True) -> None:
    """Refuse, before any work is done, a clip that cannot be written here, or must not replace another."""
    if path.suffix.lower() not in SUFFIXES:
        raise ImitableError(f"cannot write a clip to {path}: its name must end in {' or '.join(SUFFIXES)}")
    check_writable(path, overwrite=overwrite)
    if path.suffix.lower() == ".mp4":
        _ffmpeg(path)


def write_video(path: Path, frames: Iterable[np.ndarray[Any, Any]], *, fps: float) -> int:
    """Write frames (height, width, 3) as a clip that plays at `fps`; how many there were."""
    check_video(path)
    return _write_gif(path, frames, fps) if path.suffix.lower() == ".gif" else _write_mp4(path, frames, fps)


def _write_mp4(path: Path, frames: Iterable[np.ndarray[Any, Any]], fps: float) -> int:
    partial, count, frames = path.with_name(f".{path.name}.{os.getpid()}.partial"), 0, iter(frames)
    first = next(frames)
    raw = f"-y -v error -f rawvideo -pix_fmt rgb24 -s {first.shape[1]}x{first.shape[0]} -r {fps:g} -i -"
    halved = "-vf pad=ceil(iw/2)*2:ceil(ih/2)*2 -pix_fmt yuv420p"  # which players want, and which needs even sides
    encoded = f"-c:v libx264 -crf 20 {halved} -movflags +faststart -f mp4"
    command = [_ffmpeg(path), *raw.split(), *encoded.split(), str(partial)]
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent)
    try:
        with TemporaryFile() as log, subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log) as encoder:
            assert encoder.stdin is not None
            with suppress(BrokenPipeError):  # the encoder's own words say more
                for frame in chain([first], frames):
                    encoder.stdin.write(np.ascontiguousarray(frame).data)
                    count += 1
                encoder.stdin.close()
            if encoder.wait():
                log.seek(0)
                raise OSError(log.read().decode(errors="replace").strip())
        partial.replace(path)
    except OSError as error:
        raise ImitableError(f"cannot write {path}: {error}; a name that ends in .gif needs no encoder") from error
    finally:
        partial.unlink(missing_ok=True)
    return count


def _write_gif(path: Path, frames: Iterable[np.ndarray[Any, Any]], fps: float) -> int:
    from PIL import Image

    images, buffer = [Image.fromarray(frame).quantize(64) for frame in frames], BytesIO()
    # Viewers take a GIF's delays in hundredths of a second, and slow down those below two.
    images[0].save(buffer, format="GIF", save_all=True, append_images=images[1:], duration=max(20, round(100 / fps) * 10), loop=0)
    write_atomically(path, buffer.getvalue())
    return len(images)


def _ffmpeg(path: Path) -> str:
    """The encoder's program."""
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError) as error:
        raise ImitableError(
            f"writing {path} needs ffmpeg ({error}); pip install 'imitable[video]', or give a name ending in .gif"
        ) from error
