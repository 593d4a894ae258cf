"""Tables of patients: UCI heart disease, and diabetes in 130 hospitals (Strack et al., 2014)."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nescio.core import NescioError
from nescio.core.registry import datasets
from nescio.data import Dataset, Table, learn_columns, read_table
from nescio.data.dataset import Part, split
from nescio.data.encoding import Kind
from nescio.data.sets.catalogue import data_folder, lacking, locate

HOSPITALS = ("cleveland", "hungarian")
HEART: dict[str, Kind] = {
    "age": "continuous",
    "sex": "categorical",
    "cp": "categorical",  # chest pain
    "trestbps": "continuous",  # blood pressure at rest
    "chol": "continuous",  # cholesterol
    "fbs": "categorical",  # fasting blood sugar > 120 mg/dl
    "restecg": "categorical",
    "thalach": "continuous",  # heart rate, highest
    "exang": "categorical",  # angina induced by exercise
    "oldpeak": "continuous",
    "slope": "ordinal",
    "ca": "ordinal",  # vessels colored, 0 to 3
    "thal": "categorical",
}
AGES = [f"[{low}-{low + 10})" for low in range(0, 100, 10)]
DRUGS = (
    "metformin",
    "glimepiride",
    "glipizide",
    "glyburide",
    "pioglitazone",
    "rosiglitazone",
    "insulin",
)
DIABETES: dict[str, Kind] = {
    "race": "categorical",
    "gender": "categorical",
    "age": "ordinal",
    "admission_type_id": "categorical",
    "admission_source_id": "categorical",
    "time_in_hospital": "continuous",
    "medical_specialty": "categorical",
    "num_lab_procedures": "continuous",
    "num_procedures": "continuous",
    "num_medications": "continuous",
    "number_outpatient": "continuous",
    "number_emergency": "continuous",
    "number_inpatient": "continuous",
    "number_diagnoses": "continuous",
    "diagnosis": "categorical",
    "max_glu_serum": "categorical",
    "A1Cresult": "categorical",
    **dict.fromkeys(DRUGS, "categorical"),
    "change": "categorical",
    "diabetesMed": "categorical",
}
# Chapters of ICD-9 as Strack et al. group the first diagnosis; symptoms go to their organ.
CHAPTERS = (
    ("circulatory", 390, 460, 785),
    ("respiratory", 460, 520, 786),
    ("digestive", 520, 580, 787),
    ("genitourinary", 580, 630, 788),
    ("neoplasms", 140, 240, None),
    ("musculoskeletal", 710, 740, None),
    ("injury", 800, 1000, None),
    ("diabetes", 250, 251, None),
)


@datasets.register
def heart_disease(
    *, folder: str | None = None, hospital: str = "cleveland", seed: int = 0
) -> Dataset:
    """Heart disease or none, 13 columns of several kinds; needs the setting NESCIO_DATA.

    Columns are learned on the training part and encoded as by `learn_columns`;
    `heart_disease_table` has the values as they are.

    folder: where the folder `medical/heart-disease` is; None: where NESCIO_DATA says.
    hospital: "cleveland" (303 patients) or "hungarian" (294).
    seed: seed of the split.
    """
    table = heart_disease_table(hospital, folder=folder)
    return _dataset("heart_disease", table, table["disease"], HEART, {}, seed)


@datasets.register
def diabetes_130(*, folder: str | None = None, seed: int = 0) -> Dataset:
    """Patients with diabetes, readmitted to hospital or not; needs the setting NESCIO_DATA.

    71,518 patients, the first stay of each. Columns are learned on the training part and encoded as
    by `learn_columns`; `diabetes_table` has the values as they are.

    folder: where the folder `medical/diabetes-130` is; None: where NESCIO_DATA says.
    seed: seed of the split.
    """
    table = diabetes_table(folder=folder)
    return _dataset("diabetes_130", table, table["readmitted"], DIABETES, {"age": AGES}, seed)


def heart_disease_table(hospital: str = "cleveland", *, folder: str | Path | None = None) -> Table:
    """The 13 columns of a hospital, and `disease`, 0 or 1.

    hospital: "cleveland" (303 patients) or "hungarian" (294).
    folder: where the folder `medical/heart-disease` is; None: where NESCIO_DATA says.
    """
    where = data_folder("heart_disease", folder)
    if hospital not in HOSPITALS:
        raise NescioError(f"hospital must be one of {', '.join(HOSPITALS)}, got {hospital!r}")
    name = f"processed.{hospital}.data"
    path = locate(where, name)
    if path is None:
        raise lacking("heart_disease", where, name)
    table = read_table(path, names=[*HEART, "num"])
    return table.without("num").changed(disease=(table["num"] > 0).astype(float))


def diabetes_table(*, folder: str | Path | None = None) -> Table:
    """The first stay of each patient: 26 columns, and `readmitted`, 0 or 1.

    Without names of patients and stays, weight, payer, discharge (after the stay), rare drugs.
    `diagnosis` is the chapter of the first diagnosis.

    folder: where the folder `medical/diabetes-130` is; None: where NESCIO_DATA says.
    """
    where = data_folder("diabetes_130", folder)
    result = [locate(where, f"diabetic_data.csv{end}") for end in (".xz", ".gz", "")]
    path = next((path for path in result if path is not None), None)
    if path is None:
        raise lacking("diabetes_130", where, "diabetic_data.csv")
    table = read_table(path)
    order = np.argsort(table["encounter_id"], kind="stable")
    first = np.sort(order[np.unique(table["patient_nbr"][order], return_index=True)[1]])
    table = table.rows(first)
    table = table.changed(
        diagnosis=_chapters(table["diag_1"]), readmitted=(table["readmitted"] != "NO").astype(float)
    )
    return table.only(*DIABETES, "readmitted")


def _chapters(codes: NDArray[np.str_]) -> NDArray[np.str_]:
    different, index = np.unique(codes.astype(str), return_inverse=True)
    return np.array([_chapter(code) for code in different])[index]


def _chapter(code: str) -> str:
    try:
        number = int(float(code)) if code else None
    except ValueError:
        return "other"  # V and E codes
    if number is None:
        return ""
    for name, low, high, symptom in CHAPTERS:
        if low <= number < high or number == symptom:
            return name
    return "other"


def _dataset(
    name: str,
    table: Table,
    labels: NDArray[np.float64],
    kinds: dict[str, Kind],
    levels: dict[str, list[str]],
    seed: int,
) -> Dataset:
    """Parts 80 / 10 / 10, encoded with columns learned on the first."""
    y = torch.from_numpy(labels.astype(np.int64))
    indices = torch.arange(len(table), dtype=torch.float32)[:, None]
    parts = [part for part in split((indices, y), seed) if part is not None]
    rows = [x[:, 0].long().numpy() for x, _ in parts]
    columns = learn_columns(table.only(*kinds).rows(rows[0]), kinds, levels=levels)
    encoded: list[Part] = [
        (columns.encode(table.rows(own)).x, y) for own, (_, y) in zip(rows, parts, strict=True)
    ]
    train, validation, test = encoded
    return Dataset(name=name, train=train, validation=validation, test=test, classes=2)
