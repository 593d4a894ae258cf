"""Patients: made-up files for the reading, the real ones for the counts that are published."""

import os

import numpy as np
import pytest

import nescio_papers.data as papers_data
from nescio.core import NescioError
from nescio_papers.data.medical import DIABETES, HEART, _chapter

there = pytest.mark.skipif(
    not os.environ.get("NESCIO_DATA"), reason="NESCIO_DATA is not set: no files"
)
ROW = "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,"


@pytest.fixture
def folder(tmp_path):
    where = tmp_path / "medical" / "heart-disease"
    where.mkdir(parents=True)
    rows = [ROW.replace("233.0", str(200 + i)) + str(i % 3) for i in range(30)]
    rows[4] = rows[4].replace(",0.0,6.0,", ",?,?,")
    (where / "processed.cleveland.data").write_text("\n".join(rows) + "\n")
    own = tmp_path / "medical" / "diabetes-130"
    own.mkdir()
    names = ["encounter_id", "patient_nbr", "readmitted", "diag_1"]
    names += [name for name in DIABETES if name != "diagnosis"]
    lines = [",".join(names)]
    for i in range(40):
        patient = i if i < 35 else 0  # patient 0 comes again
        kept = {
            "encounter_id": 100 - i if i < 35 else 300 + i,
            "patient_nbr": patient,
            "readmitted": ["NO", "<30", ">30"][i % 3],
            "diag_1": ["428", "V57", "?", "786"][i % 4],
            "age": "[70-80)",
            "race": "?" if i == 3 else "A",
        }
        lines.append(",".join(str(kept.get(name, i % 2)) for name in names))
    (own / "diabetic_data.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_a_hospital_from_a_file(folder):
    table = papers_data.heart_disease_table(folder=folder)
    assert table.names == (*HEART, "disease")
    assert table["disease"].tolist() == [float(i % 3 > 0) for i in range(30)]
    assert np.isnan(table["ca"]).nonzero()[0].tolist() == [4]
    found = papers_data.heart_disease(folder=str(folder))
    assert (len(found.train[0]), len(found.validation[0]), len(found.test[0])) == (24, 3, 3)
    assert found.classes == 2
    with pytest.raises(NescioError, match="lacks processed.hungarian.data"):
        papers_data.heart_disease(folder=str(folder), hospital="hungarian")
    with pytest.raises(NescioError, match="one of cleveland, hungarian, got 'swiss'"):
        papers_data.heart_disease(folder=str(folder), hospital="swiss")


def test_the_first_stay_of_each_patient(folder):
    table = papers_data.diabetes_table(folder=folder)
    assert len(table) == 35  # later stays of patient 0 have larger numbers
    assert table.names == (*DIABETES, "readmitted")
    assert table["diagnosis"][:4].tolist() == ["circulatory", "other", "", "respiratory"]
    assert table["race"][3] == ""
    assert table["readmitted"][:3].tolist() == [0, 1, 1]
    assert papers_data.diabetes_130(folder=str(folder), seed=1).features == (
        papers_data.diabetes_130(folder=str(folder), seed=1).train[0].shape[1],
    )
    (folder / "medical" / "diabetes-130" / "diabetic_data.csv").unlink()
    with pytest.raises(NescioError, match=r"lacks diabetic_data.csv"):
        papers_data.diabetes_table(folder=folder)


@pytest.mark.parametrize(
    ("code", "chapter"),
    [("428", "circulatory"), ("785", "circulatory"), ("250.83", "diabetes"), ("V45", "other"),
     ("E885", "other"), ("", ""), ("998", "injury"), ("276", "other"), ("239", "neoplasms")],
)  # fmt: skip
def test_diagnoses_have_chapters(code, chapter):
    assert _chapter(code) == chapter


@there
def test_published_counts():
    cleveland, hungarian = (papers_data.heart_disease_table(h) for h in ("cleveland", "hungarian"))
    assert (len(cleveland), int(cleveland["disease"].sum())) == (303, 139)
    assert (len(hungarian), int(hungarian["disease"].sum())) == (294, 106)
    assert int(np.isnan(hungarian["ca"]).sum()) == 291
    found = papers_data.heart_disease()
    assert found.train[0].shape[0] == 243


@there
def test_published_counts_of_diabetes():
    table = papers_data.diabetes_table()
    assert len(table) == 71_518
